"""Which features, and which pairs of features in one case, a stream of cases has met."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import torch
from msgspec import Struct

from kv_canary_fuzz.strategies.case import Case
from kv_canary_fuzz.strategies.features.features import ALL_FEATURES, STRIDED, features

NAMES = ALL_FEATURES["all"] + STRIDED
_INDEX = {name: number for number, name in enumerate(NAMES)}

Pairs = npt.NDArray[np.bool_]
"""[features, features], symmetric: which two occurred in one case; the diagonal is each alone."""


class Coverage:
    """What one process's cases have met so far."""

    def __init__(self) -> None:
        self.pairs: Pairs = np.zeros((len(NAMES), len(NAMES)), bool)

    def add(self, cases: Sequence[Case]) -> tuple[Counter[str], list[int]]:
        """How many of the cases have each feature, and which of them met a new pair."""
        marks = incidence(cases)
        counts = Counter(dict(zip(NAMES, marks.sum(axis=0, dtype=np.int64).tolist(), strict=True)))
        # Multiplied by torch: numpy would, on all cores, what many processes do at the same time.
        cases_of = torch.from_numpy(marks)
        unmet = ((cases_of.T @ cases_of) > 0) & ~torch.from_numpy(self.pairs)
        if not unmet.any():
            return +counts, []
        meeting = ((cases_of @ unmet.float()) * cases_of).sum(1).nonzero().flatten().tolist()
        return +counts, [k for k in meeting if self.reach(np.flatnonzero(marks[k]))]

    def reach(self, present: npt.NDArray[np.intp]) -> bool:
        """Note the pairs among the features at these indices; whether any is new."""
        block = np.ix_(present, present)
        if self.pairs[block].all():
            return False
        self.pairs[block] = True
        return True


def incidence(cases: Sequence[Case]) -> npt.NDArray[np.float32]:
    """1 where case k has feature n, [cases, features], in a type that multiplies fast."""
    marks = np.zeros((len(cases), len(NAMES)), np.float32)
    for position, case in enumerate(cases):
        marks[position, present_features(case)] = 1
    return marks


def present_features(case: Case) -> npt.NDArray[np.intp]:
    """The indices in NAMES of a case's features; sizes too rare to be listed have none."""
    return np.array(sorted(_INDEX[name] for name in features(case) if name in _INDEX), np.intp)


def pack(pairs: Pairs) -> bytes:
    """The matrix in an eighth of its bytes."""
    return np.packbits(pairs).tobytes()


def unpack(data: bytes) -> Pairs:
    """The matrix that `pack` was given; nothing met for no bytes."""
    size = len(NAMES)
    if not data:
        return np.zeros((size, size), bool)
    bits = np.unpackbits(np.frombuffer(data, np.uint8), count=size * size)
    return bits.astype(bool).reshape(size, size)


class PairMatrix(Struct, frozen=True):
    """Pairs of features by family, as a triangle: row k has families 0 to k.

    ``met`` counts the pairs that occurred in one case, ``all`` those that could be named; values
    of one family exclude each other more often than not, so not every pair can occur.
    """

    families: tuple[str, ...]
    met: tuple[tuple[int, ...], ...]
    all: tuple[tuple[int, ...], ...]

    @property
    def total_met(self) -> int:
        return sum(map(sum, self.met))

    @property
    def total(self) -> int:
        return sum(map(sum, self.all))


def pair_matrix(pairs: Pairs, names: Iterable[str]) -> PairMatrix:
    """The pairs among ``names``, which are a domain's features, by family."""
    wanted = set(names)
    members: dict[str, list[int]] = {}
    for number, name in enumerate(NAMES):
        if name in wanted:
            members.setdefault(family(name), []).append(number)
    both = pairs & ~np.eye(len(NAMES), dtype=bool)
    families = tuple(members)
    met, possible = [], []
    for row, first in enumerate(families):
        counts, bounds = [], []
        for second in families[: row + 1]:
            a, b = members[first], members[second]
            inside = int(both[np.ix_(a, b)].sum())
            counts.append(inside // 2 if first == second else inside)
            bounds.append(len(a) * (len(a) - 1) // 2 if first == second else len(a) * len(b))
        met.append(tuple(counts))
        possible.append(tuple(bounds))
    return PairMatrix(families, tuple(met), tuple(possible))


def never_together(pairs: Pairs, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Of the features among ``names`` that occurred, those that never did in one case.

    Each pair stands under its first feature, in the order of NAMES.
    """
    wanted = set(names)
    met = [n for n, name in enumerate(NAMES) if name in wanted and pairs[n, n]]
    apart = {
        NAMES[n]: tuple(NAMES[m] for m in met[place + 1 :] if not pairs[n, m])
        for place, n in enumerate(met)
    }
    return {name: others for name, others in apart.items() if others}


def family(name: str) -> str:
    """The part of a feature's name that its alternatives share."""
    return name.partition(":")[0]
