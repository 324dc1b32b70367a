"""Which cases of a batch ended differently on the two sides: the fast answer, yes or no."""

from __future__ import annotations

import numpy as np

from ..execution.arena import Batch, Bytes
from ..execution.execution import Run
from ..execution.outcome import Rows
from .ring import Appended, advance, ring_differences, untouched_positions


def differing_cases(
    batch: Batch, reference: Run, target: Run, expected: Bytes, found: Bytes
) -> list[int]:
    """Indices of the cases whose outcomes differ, ascending.

    One equality over all bytes settles the cases that agree; only where rows may stand in another
    order is the rule of the ring asked, of the reference's ring as of the target's.
    """
    differing = {case for case, _ in _raised_differently(reference, target)}
    words = np.flatnonzero(expected.view(np.int64) != found.view(np.int64))
    if words.size:
        starts = np.array(batch.bases, np.int64) // 8
        owners = np.searchsorted(starts, words, side="right") - 1
        for case in np.unique(owners).tolist():
            offsets = (words[owners == case] - starts[case]) * 8
            if case not in differing and not _only_row_order(
                batch, case, reference, offsets, expected, found
            ):
                differing.add(case)
    return sorted(differing)


def _raised_differently(reference: Run, target: Run) -> set[tuple[int, int]]:
    if not reference.raised and not target.raised:
        return set()
    keys = reference.raised.keys() | target.raised.keys()
    return {key for key in keys if reference.raised.get(key) != target.raised.get(key)}


def _only_row_order(
    batch: Batch,
    case: int,
    reference: Run,
    offsets: np.ndarray,
    expected: Bytes,
    found: Bytes,
) -> bool:
    ring = batch.layouts[case].regions["violation_ring"]
    if offsets.min() < ring.offset or offsets.max() >= ring.end:
        return False
    produced = [
        (step, reference.rows_of(case, step)) for step in range(len(batch.cases[case].steps))
    ]
    start = batch.bases[case] + ring.offset
    before = ring_rows(expected, start, ring.size)
    after = ring_rows(found, start, ring.size)
    index = final = batch.cases[case].violation_write_index
    for _, rows in produced:
        final = advance(final, len(rows))
    appended = Appended(before, index, produced, final)
    untouched = untouched_positions(appended)
    if not np.array_equal(before[untouched], after[untouched]):
        return False
    return not any(any(ring_differences(appended, ring)) for ring in (after, before))


def ring_rows(buffer: Bytes, start: int, size: int) -> Rows:
    """The ``size`` bytes from ``start`` on as violation rows, [n, 8]."""
    return buffer[start : start + size].view(np.int64).reshape(-1, 8)
