"""The corpus: cases that first reached a pair of features, kept from run to run.

A corpus is a folder of reproducers without a signature, each named by a hash of its case, so that
folders of several workers or runs are merged by copying. ``pytest FOLDER`` replays one.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from pathlib import Path

import msgspec
import numpy as np

from kv_canary_fuzz.strategies.case import Case

from ..findings.reproducer import Reproducer, read_reproducer, write_reproducer
from .coverage import Coverage, incidence, present_features
from .run_folder import CASE_SUFFIX

NOTE = "kept in the corpus: first to reach a pair of features"


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


def add_to_corpus(folder: Path, cases: Iterable[Case]) -> list[Path]:
    """Write those of ``cases`` that meet a pair which the corpus, and those before, do not.

    The folder is made where it is missing. Raises OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    known = read_corpus(folder) if any(folder.glob(f"*{CASE_SUFFIX}")) else {}
    coverage = Coverage()
    for case in known.values():
        coverage.reach(present_features(case))
    return [_write(folder, case) for case in cases if coverage.reach(present_features(case))]


def _write(folder: Path, case: Case) -> Path:
    name = blake2b(msgspec.json.encode(case), digest_size=8).hexdigest()
    path = folder / f"{name}{CASE_SUFFIX}"
    kept = Reproducer(signature="", target="emulated", reference="torch", note=NOTE, case=case)
    write_reproducer(path, kept)
    return path


def minimise(folder: Path) -> tuple[int, int]:
    """Delete cases that the others make needless; how many there were, and how many stay.

    The smallest set is sought greedily: the case with the most pairs that are still missing comes
    next, of equals the smallest file; at the end each case that is needed for nothing goes.
    """
    cases = read_corpus(folder)
    paths = list(cases)
    chosen = set(smallest_cover([*cases.values()], [path.stat().st_size for path in paths]))
    for number, path in enumerate(paths):
        if number not in chosen:
            path.unlink()
    return len(paths), len(chosen)


def smallest_cover(cases: Sequence[Case], sizes: Sequence[int]) -> list[int]:
    """Indices of a small set of ``cases`` that meets every pair which all of them meet."""
    marks = incidence(cases).astype(bool)
    present = [np.flatnonzero(row) for row in marks]
    missing = (marks.astype(np.float32).T @ marks.astype(np.float32)) > 0
    chosen: list[int] = []
    queue = [(-(len(row) ** 2), sizes[number], number) for number, row in enumerate(present)]
    heapq.heapify(queue)
    while missing.any():
        _, size, number = heapq.heappop(queue)
        block = np.ix_(present[number], present[number])
        gain = (-int(missing[block].sum()), size, number)
        if queue and gain > queue[0]:  # what others met since was counted: ask again later
            heapq.heappush(queue, gain)
            continue
        missing[block] = False
        chosen.append(number)
    return sorted(_without_needless(chosen, present, len(missing)))


def _without_needless(chosen: list[int], present: list[np.ndarray], size: int) -> list[int]:
    """``chosen`` without those whose every pair is met by others, the first chosen asked first."""
    counts = np.zeros((size, size), np.int64)
    for number in chosen:
        counts[np.ix_(present[number], present[number])] += 1
    kept = []
    for number in chosen:
        block = np.ix_(present[number], present[number])
        if (counts[block] > 1).all():
            counts[block] -= 1
        else:
            kept.append(number)
    return kept
