"""Whether two replays of one graph left the same: every byte, but for the order of ring rows."""

from __future__ import annotations

import numpy as np

from kv_canary_fuzz.strategies.case import Case

from .arena import Bytes
from .layout import Layout
from .outcome import Rows


def replays_differ(case: Case, layout: Layout, first: Bytes, second: Bytes) -> str:
    """The region where two outcomes of the same launches differ; empty where they may be so.

    The rows of a launch may stand in another order, and where not all had room, others of them may
    be stored (contract, section 6): each outcome is held against the reference's rows elsewhere.
    """
    ring = layout.regions["violation_ring"]
    for offset in np.flatnonzero(first != second).tolist():
        if not ring.offset <= offset < ring.end:
            place = layout.locate(offset)
            return place[0] if place else "a guard band"
    rows = [_rows(data[ring.offset : ring.end]) for data in (first, second)]
    index = layout.regions["violation_write_index"]
    final = int(second[index.offset : index.end].view(np.int32)[0])
    start = case.violation_write_index
    if 0 <= start <= final <= case.ring_capacity:
        one, other = (
            np.concatenate([side[:start], _ordered(side[start:final]), side[final:]])
            for side in rows
        )
        return "" if np.array_equal(one, other) else "violation_ring"
    return ""


def _rows(data: Bytes) -> Rows:
    return np.ascontiguousarray(data).view(np.int64).reshape(-1, 8)


def _ordered(rows: Rows) -> Rows:
    return rows[np.lexsort(rows.T)]
