"""The slow and full answer for one case: where two implementations part, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from kv_canary_fuzz.strategies.case import Case, Step
from kv_canary_fuzz.strategies.knowledge import Row, expected_bits

from .arena import Bytes, allocate, fill, lay_out_batch
from .binding import Binder
from .differences import differences
from .execution import Run, step_reference, step_target
from .layout import Layout
from .memory import Memory
from .mismatch import Mismatch, Rank, bits_text, first_cause, step_kind
from .outcome import Raised, Rows
from .target import Target

Expectation = tuple[Row, ...] | None
"""The rows that a step must produce, as (slot, position, bits); None where that is not known."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The first step after which two outcomes differ, and every difference there.

    ``expected`` and ``found`` are the arenas after that step. ``step`` is -1 and ``mismatches``
    empty where the two agree.
    """

    step: int
    mismatches: tuple[Mismatch, ...]
    signature: str
    layout: Layout
    expected: Bytes
    found: Bytes

    @property
    def agrees(self) -> bool:
        return not self.mismatches


MOST_LINES = 8
"""Differences that a reproducer lists; running it shows the rest."""


def lines_of(verdict: Verdict) -> tuple[str, ...]:
    """The first differences, a line each."""
    return tuple(mismatch.line() for mismatch in verdict.mismatches[:MOST_LINES])


class Side:
    """One implementation's fresh memory for one case, advanced step by step."""

    def __init__(self, case: Case, target: Target | None) -> None:
        batch = lay_out_batch([case])
        buffer = allocate(batch.size)
        fill(batch, buffer)
        self._case = case
        self._target = target
        self._memory = Memory(buffer, target.device if target else "cpu")
        self._binder = Binder(case, batch.layouts[0], self._memory, 0)
        self._size = batch.size
        self.run = Run()
        if target is not None and target.set_schedule is not None:
            target.set_schedule(case.schedule)

    def advance(self, number: int) -> Raised | None:
        """Run step ``number``; None as target stands for the torch reference."""
        if self._target is None:
            step_reference((self._case,), [self._binder], number, self.run)
            return self.run.raised.get((0, number))
        return step_target(self._target, self._case, self._binder, number)

    def bytes(self) -> Bytes:
        return self._memory.read(0, self._size)


def judge(case: Case, target: Target, reference: Target | None = None) -> Verdict:
    """Run ``case`` on fresh memory on both sides and compare after every step.

    The reference is the torch reference unless another target is given. What the grammar knows
    about violation rows is checked first: a reference that breaks it is a mismatch as well.
    """
    layout = lay_out_batch([case]).layouts[0]
    model = Side(case, None)
    left = Side(case, reference) if reference else model
    right = Side(case, target)
    known = expected_bits(case)
    produced: list[tuple[int, Rows]] = []
    for number, step in enumerate(case.steps):
        rows_raised = model.advance(number)
        left_raised = rows_raised if left is model else left.advance(number)
        right_raised = right.advance(number)
        produced.append((number, model.run.rows_of(0, number)))
        found = [
            *_exception_mismatch(left_raised, right_raised),
            *_knowledge_mismatch(known[number], produced[-1][1]),
            *differences(case, layout, produced, left.bytes(), right.bytes()),
        ]
        if found:
            ordered = tuple(first_cause(found))
            return Verdict(
                step=number,
                mismatches=ordered,
                signature=signature_of(step, ordered[0]),
                layout=layout,
                expected=left.bytes().copy(),
                found=right.bytes().copy(),
            )
    return Verdict(
        step=-1,
        mismatches=(),
        signature="",
        layout=layout,
        expected=left.bytes(),
        found=right.bytes(),
    )


def signature_of(step: Step, cause: Mismatch) -> str:
    """What two findings of the same bug share: the step's kind and the first cause's kind."""
    return f"{step_kind(step)}: {cause.kind}"


def _exception_mismatch(expected: Raised | None, found: Raised | None) -> list[Mismatch]:
    if expected == found:
        return []
    kinds = [raised.kind if raised else "nothing" for raised in (expected, found)]
    if kinds[0] == kinds[1]:
        kinds = ["message", "message"]
    return [
        Mismatch(
            rank=Rank.EXCEPTION,
            order=(),
            kind=f"raised {kinds[1]}, not {kinds[0]}" if kinds[0] != kinds[1] else "message",
            place="exception",
            expected=_raised_text(expected),
            found=_raised_text(found),
        )
    ]


def _raised_text(raised: Raised | None) -> str:
    return f"{raised.kind}: {raised.message}" if raised else "none"


def knowledge_broken(known: Sequence[Expectation], run: Run, case: int) -> bool:
    """Whether the reference's rows of any step differ from what the case was built to cause."""
    return any(
        expectation is not None and _row_entries(run.rows_of(case, step)) != sorted(expectation)
        for step, expectation in enumerate(known)
    )


def _row_entries(rows: Rows) -> list[tuple[int, int, int]]:
    return sorted((row[1], row[2], row[-1]) for row in rows.tolist())


def _knowledge_mismatch(known: Expectation, rows: Rows) -> list[Mismatch]:
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
