"""Passes that put what has no order of its own into one: entries, requests, sources."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from msgspec.structs import replace

from ..case import Case, Column, Step, VerifyStep, WriteStep
from ..columns import expand
from .cuts import replace_step
from .problem import Problem, first
from .relabel import relayout
from .sites import ENTRY_COLUMNS, SHORT, VERIFY_COLUMNS, put_in_column

AnyStep = TypeVar("AnyStep", WriteStep, VerifyStep)
FEW_ENTRIES = 16


def sort_sources(problem: Problem) -> None:
    """Neighbouring sources exchanged, or their shapes alone; of use where no edit names them."""
    while first(problem, _exchanged_sources(problem.case)):
        pass


def _exchanged_sources(case: Case) -> Iterator[Case]:
    sources = case.real_kv_sources
    for k in range(len(sources) - 1):
        one, other = sources[k : k + 2]
        exchanged = replace(case, real_kv_sources=(*sources[:k], other, one, *sources[k + 2 :]))
        yield exchanged
        yield relayout(case, lambda slot: slot, exchanged)


def sort_entries(problem: Problem) -> None:
    """Neighbouring entries, and neighbouring requests, exchanged until they stand in order."""
    for number in range(len(problem.case.steps)):
        swapped = True
        while swapped:
            case = problem.case
            swapped = first(
                problem, (replace_step(case, number, s) for s in _exchanged(case.steps[number]))
            )


def _exchanged(step: Step) -> Iterator[Step]:
    if isinstance(step, VerifyStep):
        for index in range(_few(step.verify_slot_indices) - 1):
            yield _permuted(step, VERIFY_COLUMNS, {index: index + 1, index + 1: index})
    elif isinstance(step, WriteStep):
        for index in range(_few(step.input_ids) - 1):
            yield _permuted(step, ENTRY_COLUMNS, {index: index + 1, index + 1: index})
        if _few(step.input_ids) == step.input_ids.length:
            offsets = expand(step.write_offsets)
            for request in range(_few(step.write_offsets) - 2):
                yield from _exchanged_requests(step, offsets, request)


def _few(column: Column) -> int:
    """How many of a column's numbers take part."""
    return min(column.length, FEW_ENTRIES) if column.length <= SHORT else 0


def _exchanged_requests(
    step: WriteStep, offsets: tuple[int, ...], request: int
) -> Iterator[WriteStep]:
    start, middle, stop = offsets[request : request + 3]
    if not 0 <= start <= middle <= stop <= step.input_ids.length:
        return
    order = [*range(middle, stop), *range(start, middle)]
    moved = _permuted(step, ENTRY_COLUMNS, dict(enumerate(order, start)))
    seeds = _permuted(
        moved, ("write_seed_slot_indices",), {request: request + 1, request + 1: request}
    )
    new = {request + 1: start + stop - middle}
    yield replace(seeds, write_offsets=put_in_column(step.write_offsets, new))


def _permuted(step: AnyStep, names: tuple[str, ...], origin: dict[int, int]) -> AnyStep:
    """The columns with index i holding what index ``origin[i]`` held."""
    changed = {}
    for name in names:
        column = getattr(step, name)
        if column is not None:
            found = expand(column)
            changed[name] = put_in_column(column, {to: found[at] for to, at in origin.items()})
    return replace(step, **changed)
