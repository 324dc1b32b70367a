"""Passes over what a case does on purpose: edits between launches, and faults of a launch."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from ..case import Case, CorruptStep, Edit, Fault, Flip, SwapSlots, WriteStep
from ..faults import Launch, tensor_names
from .cuts import replace_step
from .order import PLAIN_FAULTS, fault_key
from .problem import Problem, descend, first
from .words import WORD_BYTES


def plain_edits(problem: Problem) -> None:
    """A flip to the first byte and lowest bit it can have, a swap to the lowest slots."""
    for number, step in enumerate(problem.case.steps):
        if not isinstance(step, CorruptStep):
            continue
        for index in range(len(step.edits)):
            while first(problem, _plainer(problem.case, number, index)):
                pass


def _plainer(case: Case, number: int, index: int) -> Iterator[Case]:
    step = case.steps[number]
    assert isinstance(step, CorruptStep)
    for edit in _plainer_edits(step.edits[index]):
        edits = (*step.edits[:index], edit, *step.edits[index + 1 :])
        yield replace_step(case, number, replace(step, edits=edits))
    if index:
        before = (*step.edits[: index - 1], step.edits[index], step.edits[index - 1])
        yield replace_step(case, number, replace(step, edits=before + step.edits[index + 1 :]))


def _plainer_edits(edit: Edit) -> Iterator[Edit]:
    if isinstance(edit, SwapSlots):
        if edit.first > edit.second:
            yield SwapSlots(first=edit.second, second=edit.first)
        return
    for offset in dict.fromkeys(_lower_offsets(edit)):
        yield replace(edit, offset=offset)
    for mask in (1, edit.mask & -edit.mask):
        yield replace(edit, mask=mask)


def _lower_offsets(flip: Flip) -> Iterator[int]:
    """0, the first byte of its word, the words before it and the bytes before it."""
    yield 0
    word = flip.offset // WORD_BYTES * WORD_BYTES
    if word != flip.offset:
        yield word
        yield flip.offset - 1
    for back in (32, 16, 8):
        if flip.offset >= back:
            yield flip.offset - back


def plain_faults(problem: Problem) -> None:
    """Each fault to the plainest kind, tensor and amount that do, the input assert off with it."""
    for number, step in enumerate(problem.case.steps):
        if not isinstance(step, CorruptStep):
            for index in range(len(step.faults)):
                first(problem, _other_faults(problem.case, number, index))
                _lower_amount(problem, number, index)


def _other_faults(case: Case, number: int, index: int) -> Iterator[Case]:
    step = case.steps[number]
    assert not isinstance(step, CorruptStep)
    fault = step.faults[index]
    names = sorted(tensor_names(case, step, fault.kind), key=len)
    others = [*PLAIN_FAULTS, *(replace(fault, tensor=name) for name in names)]
    for other in sorted(others, key=fault_key):
        changed = _with_fault(step, index, other)
        yield replace_step(case, number, changed)
        if isinstance(changed, WriteStep):
            bare = replace(
                changed,
                enable_write_input_assert=False,
                expected_input_tokens=None,
                expected_input_positions=None,
            )
            yield replace_step(case, number, bare)


def _with_fault(step: Launch, index: int, fault: Fault) -> Launch:
    faults = (*step.faults[:index], fault, *step.faults[index + 1 :])
    return replace(step, faults=faults)


def _lower_amount(problem: Problem, number: int, index: int) -> None:
    step = problem.case.steps[number]
    assert not isinstance(step, CorruptStep)
    fault = step.faults[index]

    def attempt(amount: int) -> bool:
        changed = _with_fault(step, index, replace(fault, amount=amount))
        return problem.attempt(replace_step(problem.case, number, changed))

    descend(fault.amount, attempt)
