"""What the grammar knows of a case's rows, held against the rows that the reference gives."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kv_canary_fuzz.strategies.knowledge.expected import Row

from ..execution.execution import Run
from ..execution.outcome import Rows
from .mismatch import Mismatch, Rank, bits_text

Expectation = tuple[Row, ...] | None
"""The rows that a step must produce, as (slot, position, bits); None where that is not known."""


def expectation_broken(known: Sequence[Expectation], run: Run, case: int) -> bool:
    """Whether the reference's rows of any step differ from what the case was built to cause."""
    return any(
        expectation is not None and _row_entries(run.rows_of(case, step)) != sorted(expectation)
        for step, expectation in enumerate(known)
    )


def _row_entries(rows: Rows) -> list[tuple[int, int, int]]:
    return sorted((row[1], row[2], row[-1]) for row in rows.tolist())


def expectation_mismatch(known: Expectation, rows: Rows) -> list[Mismatch]:
    """Where the reference's rows are not those that the case was built to cause."""
    if known is None:
        return []
    found = _row_entries(rows)
    wanted = sorted(known)
    if found == wanted:
        return []
    missing = [entry for entry in wanted if entry not in found]
    extra = [entry for entry in found if entry not in wanted]
    bits = np.bitwise_xor.reduce([entry[2] for entry in (missing + extra)[:2]] or [0])
    return [
        Mismatch(
            rank=Rank.ROW,
            order=(0, -1, 0),
            kind=f"knowledge bits {int(bits)}",
            place="rows that the reference gives, against what the case must cause",
            expected=_entries_text(missing),
            found=_entries_text(extra),
        )
    ]


def _entries_text(entries: list[tuple[int, int, int]]) -> str:
    texts = [
        f"slot {slot} position {position} bits {bits_text(bits)}"
        for slot, position, bits in entries
    ]
    return "; ".join(texts) or "nothing more"
