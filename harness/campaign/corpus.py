"""The corpus: cases that first reached a pair of features or a basic block, kept from run to run.

A corpus is a folder of reproducers without a signature, each named by a hash of its case, so that
folders of several workers or runs are merged by copying. ``pytest FOLDER`` replays one.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from kv_canary_fuzz.strategies.case import Case

from ..atomic_file import sweep
from ..findings.reproducer import Reproducer, read_reproducer, write_reproducer
from .blocks import BlocksOf
from .coverage import NAMES, present_features
from .run_folder import CASE_SUFFIX

NOTE = "kept in the corpus: first to reach a pair of features or a basic block"


class CorpusError(Exception):
    """A corpus that is configured and cannot be had; the message is one line that says why."""


def read_corpus(folder: Path) -> dict[Path, Case]:
    """The cases of a corpus by file, in the order of their names.

    Raises CorpusError where the folder is missing or holds no case, and ReproducerError where one
    of its files is damaged: a corpus that is lost must not go unnoticed.
    """
    if not folder.is_dir():
        raise CorpusError(
            f"corpus {folder} is missing; `kv-canary-fuzz corpus init {folder}` makes one"
        )
    paths = sorted(folder.glob(f"*{CASE_SUFFIX}"))
    if not paths:
        raise CorpusError(
            f"corpus {folder} is empty; `kv-canary-fuzz corpus init {folder}` fills it"
        )
    return {path: read_reproducer(path).case for path in paths}


Items = npt.NDArray[np.intp]
"""What one case reaches, as numbers: pairs of its features, then basic blocks of the kernels."""


def items_of(case: Case, blocks_of: BlocksOf) -> Items:
    """All that a case reaches, each once."""
    present = present_features(case)
    rows, columns = np.triu_indices(len(present))
    pairs = present[rows] * len(NAMES) + present[columns]
    blocks = np.array(sorted(blocks_of(case)), np.intp) + len(NAMES) ** 2
    return np.concatenate([pairs, blocks])


def add_to_corpus(folder: Path, cases: Iterable[Case], blocks_of: BlocksOf) -> list[Path]:
    """Write those of ``cases`` that reach what the corpus, and those before, do not.

    The folder is made where it is missing. Raises OSError.
    """
    return list(growth(folder, cases, blocks_of))


def growth(folder: Path, cases: Iterable[Case], blocks_of: BlocksOf) -> Iterator[Path]:
    """As `add_to_corpus`, file by file as they are written."""
    folder.mkdir(parents=True, exist_ok=True)
    sweep(folder)
    known = read_corpus(folder) if any(folder.glob(f"*{CASE_SUFFIX}")) else {}
    met: set[int] = set()
    for case in known.values():
        met.update(items_of(case, blocks_of).tolist())
    for case in cases:
        new = set(items_of(case, blocks_of).tolist()) - met
        if new:
            met |= new
            yield _write(folder, case)


def _write(folder: Path, case: Case) -> Path:
    name = blake2b(msgspec.json.encode(case), digest_size=8).hexdigest()
    path = folder / f"{name}{CASE_SUFFIX}"
    kept = Reproducer(signature="", target="emulated", reference="torch", note=NOTE, case=case)
    write_reproducer(path, kept)
    return path


def minimise(folder: Path, blocks_of: BlocksOf) -> tuple[int, int]:
    """Delete cases that the others make needless; how many there were, and how many stay."""
    cases = read_corpus(folder)
    paths = list(cases)
    items = [items_of(case, blocks_of) for case in cases.values()]
    chosen = set(smallest_cover(items, [path.stat().st_size for path in paths]))
    for number, path in enumerate(paths):
        if number not in chosen:
            path.unlink()
    return len(paths), len(chosen)


def smallest_cover(items: Sequence[Items], sizes: Sequence[int]) -> list[int]:
    """Indices of a small set of cases that reaches every item which all of them reach.

    It is sought greedily: the case with the most items that are still missing comes next, of
    equals the smallest; at the end each case that is needed for nothing goes.
    """
    counts = np.bincount(np.concatenate(items))
    missing = counts > 0
    chosen: list[int] = []
    queue = [(-len(each), sizes[number], number) for number, each in enumerate(items)]
    heapq.heapify(queue)
    while missing.any():
        _, size, number = heapq.heappop(queue)
        gain = (-int(missing[items[number]].sum()), size, number)
        if queue and gain > queue[0]:  # what others reached since was counted: ask again later
            heapq.heappush(queue, gain)
            continue
        missing[items[number]] = False
        chosen.append(number)
    return sorted(_without_needless(chosen, items, len(counts)))


def _without_needless(chosen: list[int], items: Sequence[Items], size: int) -> list[int]:
    """``chosen`` without those whose every item is reached by others, the first asked first."""
    counts = np.zeros(size, np.int64)
    for number in chosen:
        counts[items[number]] += 1
    kept = []
    for number in chosen:
        if (counts[items[number]] > 1).all():
            counts[items[number]] -= 1
        else:
            kept.append(number)
    return kept
