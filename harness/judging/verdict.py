"""The slow and full answer for one case: where two implementations part, and why."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from msgspec.structs import replace

from kv_canary_fuzz.reference import RELEASED, Contract
from kv_canary_fuzz.strategies.case import Case, Step
from kv_canary_fuzz.strategies.circumstances import circumstances
from kv_canary_fuzz.strategies.classify import classify
from kv_canary_fuzz.strategies.knowledge.expected import expected_bits

from ..execution.arena import Bytes, allocate, fill, lay_out_batch
from ..execution.binding import Binder
from ..execution.execution import Run, step_reference
from ..execution.layout import Layout
from ..execution.outcome import CRASH, Death, Raised, Rows
from ..execution.stepping import Stepper
from ..execution.tensors import Memory
from ..isolation.isolation import Steps
from ..targets.target import Target
from .differences import differences
from .expectation import expectation_mismatch
from .mismatch import Mismatch, Rank, first_cause, step_kind
from .own_rows import SPARE_ROWS, own_rows, with_room

WHERE = ", where "
"""Between what differs and the circumstances, in a signature."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The first step after which two outcomes differ, and every difference there.

    ``expected`` and ``found`` are the arenas after that step. ``step`` is -1 and ``mismatches``
    empty where the two agree. ``circumstances`` are the open or illegal inputs up to that step
    where the target does not claim them (see `strategies.circumstances`); they are part of the
    signature.
    """

    step: int
    mismatches: tuple[Mismatch, ...]
    signature: str
    layout: Layout
    expected: Bytes
    found: Bytes
    circumstances: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """The signature without the circumstances."""
        return self.signature.partition(WHERE)[0]

    @property
    def agrees(self) -> bool:
        return not self.mismatches


MOST_LINES = 8
"""Differences that a reproducer lists; running it shows the rest."""
MOST_LINE = 2000
"""Characters of one of them: an exception's message may go on for ever."""


def lines_of(verdict: Verdict) -> tuple[str, ...]:
    """The first differences, a line each."""
    return tuple(_cut(mismatch.line()) for mismatch in verdict.mismatches[:MOST_LINES])


def _cut(line: str) -> str:
    return line if len(line) <= MOST_LINE else f"{line[:MOST_LINE]}..."


class Side:
    """One implementation's fresh memory for one case, advanced step by step.

    An isolated target runs all steps at once, and advancing looks at one after the other.

    ``contract`` is the revision that the torch reference follows; a target follows its own.
    """

    def __init__(self, case: Case, target: Target | None, contract: Contract = RELEASED) -> None:
        batch = lay_out_batch([case])
        self._case = case
        self._target = target
        self._contract = contract
        self._size = batch.size
        self._ended = 0
        self._steps: Steps | None = None
        self.run = Run()
        if target is not None and target.isolation is not None:
            self._steps = target.isolation.run_steps(case)
        buffer = allocate(batch.size)
        fill(batch, buffer)
        device = target.device if target and not self._steps else "cpu"
        self._memory = Memory(buffer, device)
        if target is None:
            self._binder = Binder(case, batch.layouts[0], self._memory, 0)
        elif self._steps is None:
            self._stepper = Stepper(case, batch.layouts[0], target, self._memory)

    def advance(self, number: int) -> Raised | Death | None:
        """Run step ``number``; None as target stands for the torch reference."""
        self._ended = number + 1
        if self._steps is not None:
            return self._steps.endings[number]
        if self._target is None:
            step_reference((self._case,), [self._binder], number, self.run, self._contract)
            return self.run.raised.get((0, number))
        return self._stepper.advance(number)

    def bytes(self) -> Bytes:
        if self._steps is not None and self._ended:
            return self._steps.snapshots[self._ended - 1]
        return self._memory.read(0, self._size)


def judge(case: Case, target: Target, reference: Target | None = None) -> Verdict:
    """Run ``case`` on fresh memory on both sides and compare after every step.

    The reference is the torch reference unless another target is given. A torch reference that
    breaks what the grammar knows about the case's rows is a mismatch as well; it has no say where
    two targets are compared. Where rows were lost for want of room in the ring, they are looked at
    in a copy of the case that has room.
    """
    verdict, appended = _judge(case, target, reference)
    ranks = {mismatch.rank for mismatch in verdict.mismatches}
    if not ranks & {Rank.ROW, Rank.INDEX} or ranks & {Rank.EXCEPTION, Rank.STAMP}:
        return verdict
    if 0 <= case.violation_write_index <= case.ring_capacity - appended - SPARE_ROWS:
        return verdict
    seen, _ = _judge(with_room(case, appended), target, reference)
    rows = [mismatch for mismatch in seen.mismatches if mismatch.rank is Rank.ROW]
    if not rows:
        return verdict
    known = {mismatch.line() for mismatch in verdict.mismatches}
    lost = [m if m.line() in known else _with_room(m, seen.step) for m in rows]
    rest = [mismatch for mismatch in verdict.mismatches if mismatch.rank is not Rank.ROW]
    ordered = tuple(first_cause([*lost, *rest]))
    signature = signature_of(case.steps[seen.step], ordered[0], verdict.circumstances)
    return dataclasses.replace(verdict, mismatches=ordered, signature=signature)


def _with_room(mismatch: Mismatch, step: int) -> Mismatch:
    return replace(mismatch, place=f"{mismatch.place} (step {step}, had the ring room)")


def _judge(case: Case, target: Target, reference: Target | None) -> tuple[Verdict, int]:
    """The verdict on the case as it is, and how many rows the reference appended."""
    layout = lay_out_batch([case]).layouts[0]
    left = Side(case, reference, target.contract)
    right = Side(case, target)
    initial = left.bytes().copy()
    known = expected_bits(case, target.contract) if reference is None else ()
    own = list(own_rows(case, reference)) if reference else []
    produced: list[tuple[int, Rows]] = []
    number, found = -1, list[Mismatch]()
    for number, _ in enumerate(case.steps):
        left_raised, right_raised = left.advance(number), right.advance(number)
        produced.append((number, own[number] if own else left.run.rows_of(0, number)))
        if isinstance(left_raised, Death) or isinstance(right_raised, Death):
            found = exception_mismatch(left_raised, right_raised)
            break
        found = [
            *exception_mismatch(left_raised, right_raised),
            *(expectation_mismatch(known[number], produced[-1][1]) if known else ()),
            *differences(case, layout, produced, initial, left.bytes(), right.bytes()),
        ]
        if found:
            break
    ordered = tuple(first_cause(found))
    open_inputs = unclaimed(case, number, target) if found else ()
    verdict = Verdict(
        step=number if found else -1,
        mismatches=ordered,
        signature=signature_of(case.steps[number], ordered[0], open_inputs) if found else "",
        layout=layout,
        expected=left.bytes(),
        found=right.bytes(),
        circumstances=open_inputs,
    )
    return verdict, sum(len(rows) for _, rows in produced)


def unclaimed(case: Case, step: int, target: Target) -> tuple[str, ...]:
    """The circumstances up to a step, where they take the case out of what the target claims."""
    return () if classify(case) in target.domains else circumstances(case, step)


def signature_of(step: Step, cause: Mismatch, open_inputs: tuple[str, ...]) -> str:
    """What two findings of the same bug share: the step's kind and the first cause's kind.

    Where there are circumstances that the target does not claim to handle, they tell bugs apart,
    and of stamps and rows the region alone: what stands in it then is as it happens.
    """
    kind = cause.kind
    if open_inputs and cause.rank in (Rank.STAMP, Rank.ROW):
        kind = kind.partition(".")[0].partition(" ")[0]
    where = WHERE + " and ".join(open_inputs) if open_inputs else ""
    return f"{kind}{where}" if kind.startswith(CRASH) else f"{step_kind(step)}: {kind}{where}"


Ending = Raised | Death | None
"""How a step ended: in an exception, with its process, or as it should."""


def exception_mismatch(expected: Ending, found: Ending) -> list[Mismatch]:
    """The difference between two endings of a step, if there is one."""
    if expected == found:
        return []
    wanted, given = (ending.kind if ending else "nothing" for ending in (expected, found))
    kind = "message" if wanted == given else f"raised {given}, not {wanted}"
    death = next((ending for ending in (found, expected) if isinstance(ending, Death)), None)
    return [
        Mismatch(
            rank=Rank.EXCEPTION,
            order=(),
            kind=death.signature if death else kind,
            place="process" if death else "exception",
            expected=_ending_text(expected),
            found=_ending_text(found),
        )
    ]


def _ending_text(ending: Ending) -> str:
    if isinstance(ending, Death):
        return "; ".join((f"{ending.kind} in {ending.launch or 'no launch'}", *ending.report))
    return f"{ending.kind}: {ending.message}" if ending else "none"
