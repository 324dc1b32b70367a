"""Passes that take parts out: steps, faults, requests, entries, edits, sources, slots, checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import TypeVar

from msgspec.structs import replace

from ..case import CorruptStep, Step, VerifyStep, WriteStep
from ..columns import expand
from .cuts import Leave, cut_entries, cut_requests, cut_sources, replace_step
from .problem import Problem, Span, first, least, remove, spans_of
from .relabel import forget_slots, used_slots
from .sites import ENTRY_COLUMNS, VERIFY_COLUMNS

Item = TypeVar("Item")
LEAVES: tuple[Leave, ...] = ("nothing", "before", "after")
MANY = 1024
"""Entries above which slots are not looked at one by one."""


def drop_steps(problem: Problem) -> None:
    base = problem.case
    least(1, len(base.steps), lambda n: problem.attempt(replace(base, steps=base.steps[:n])))
    base = problem.case
    remove(
        _each(len(base.steps)),
        lambda spans: problem.attempt(replace(base, steps=_without(base.steps, spans))),
    )


def drop_faults(problem: Problem) -> None:
    for number, step in enumerate(problem.case.steps):
        if not isinstance(step, CorruptStep):
            _remove(problem, number, _each(len(step.faults)), _without_faults)


def _without_faults(step: Step, spans: list[Span]) -> Step:
    assert not isinstance(step, CorruptStep)
    return replace(step, faults=_without(step.faults, spans))


def drop_edits(problem: Problem) -> None:
    for number, step in enumerate(problem.case.steps):
        if isinstance(step, CorruptStep):
            _remove(problem, number, _each(len(step.edits)), _without_edits)


def _without_edits(step: Step, spans: list[Span]) -> Step:
    assert isinstance(step, CorruptStep)
    return replace(step, edits=_without(step.edits, spans))


def drop_slots(problem: Problem) -> None:
    """Forget slots with all that is said of them; chains close over the gap."""
    base = problem.case
    lengths = [_entries(step)[0] for step in base.steps]
    if sum(lengths) > MANY:
        return
    slots = used_slots(base)
    remove(
        _each(len(slots)),
        lambda spans: problem.attempt(
            forget_slots(base, {slots[k] for start, stop in spans for k in range(start, stop)})
        ),
    )


def drop_inactive(problem: Problem) -> None:
    """Capacities down to what is active, and entries that no request has out of the way."""
    whole = problem.case
    for number, step in enumerate(whole.steps):
        whole = replace_step(whole, number, _active_part(step))
    if problem.attempt(whole):
        return
    for number in range(len(problem.case.steps)):
        base = problem.case
        problem.attempt(replace_step(base, number, _active_part(base.steps[number])))


def drop_requests(problem: Problem) -> None:
    """Requests with their entries, then requests that leave their entries to a neighbour."""
    for number, step in enumerate(problem.case.steps):
        if not isinstance(step, WriteStep):
            continue
        for leave in LEAVES:
            step = problem.case.steps[number]
            assert isinstance(step, WriteStep)
            columns = step.write_seed_slot_indices, step.write_offsets
            spans = spans_of(
                columns[0].length,
                max(len(column.values) for column in columns),
                max(len(column.tail) for column in columns),
            )
            _remove(problem, number, spans, partial(_without_requests, leave))


def _without_requests(leave: Leave, step: Step, spans: list[Span]) -> Step:
    assert isinstance(step, WriteStep)
    return cut_requests(step, spans, leave)


def drop_entries(problem: Problem) -> None:
    for number in range(len(problem.case.steps)):
        spans = spans_of(*_entries(problem.case.steps[number]))
        _remove(problem, number, spans, cut_entries)


def drop_sources(problem: Problem) -> None:
    base = problem.case
    remove(
        _each(len(base.real_kv_sources)), lambda spans: problem.attempt(cut_sources(base, spans))
    )


def switch_off(problem: Problem) -> None:
    """Hashing to a lower mode, checks and asserts off with what only they read."""
    base = problem.case
    first(problem, (replace(base, real_kv_hash_mode=m) for m in range(base.real_kv_hash_mode)))
    for number in range(len(problem.case.steps)):
        for plainer in plainer_steps(problem.case.steps[number]):
            problem.attempt(replace_step(problem.case, number, plainer(problem.case.steps[number])))


def plainer_steps(step: Step) -> list[Callable[[Step], Step]]:
    """Ways of switching one thing of a step off."""

    def setter(**fields: object) -> Callable[[Step], Step]:
        return lambda current: replace(current, **fields)

    if isinstance(step, WriteStep):
        return [
            setter(
                enable_write_input_assert=False,
                expected_input_tokens=None,
                expected_input_positions=None,
            ),
            setter(expected_input_tokens=None),
            setter(expected_input_positions=None),
            setter(enable_write_input_assert=False),
            setter(enable_chain_position_assert=0),
        ]
    if isinstance(step, VerifyStep):
        return [setter(check_verify_expected_token=False), setter(enable=1)]
    return []


def _active_part(step: Step) -> Step:
    if isinstance(step, VerifyStep):
        capacity = step.verify_slot_indices.length
        count = min(max(step.verify_num_valid, 0), capacity)
        step = replace(step, verify_num_valid=count)
        return cut_entries(step, [(count, capacity)])
    if not isinstance(step, WriteStep):
        return step
    capacity = step.write_seed_slot_indices.length
    count = min(max(step.write_num_valid_reqs, 0), capacity)
    step = replace(step, write_num_valid_reqs=count)
    step = cut_requests(step, [(count, capacity)], "before")
    return cut_entries(step, _unowned(step))


def _unowned(step: WriteStep) -> list[Span]:
    """The entries before, between and after those of the requests, as spans."""
    spans: list[Span] = []
    reached = 0
    offsets = expand(step.write_offsets)
    for start, stop in sorted(pairwise(offsets)):
        if start >= stop:
            continue
        if start > reached:
            spans.append((reached, start))
        reached = max(reached, stop)
    if reached < step.input_ids.length:
        spans.append((reached, step.input_ids.length))
    return spans


def _entries(step: Step) -> tuple[int, int, int]:
    """A step's entries: how many, how many spelt out at the head, how many at the tail."""
    names = ENTRY_COLUMNS if isinstance(step, WriteStep) else VERIFY_COLUMNS
    columns = [c for c in (getattr(step, name, None) for name in names) if c is not None]
    if not columns:
        return 0, 0, 0
    return (
        columns[0].length,
        max(len(column.values) for column in columns),
        max(len(column.tail) for column in columns),
    )


def _each(count: int) -> list[Span]:
    return [(index, index + 1) for index in range(count)]


def _without(items: Sequence[Item], spans: list[Span]) -> tuple[Item, ...]:
    gone = {index for start, stop in spans for index in range(start, stop)}
    return tuple(item for index, item in enumerate(items) if index not in gone)


def _remove(
    problem: Problem,
    number: int,
    spans: list[Span],
    cutter: Callable[[Step, list[Span]], Step],
) -> None:
    base = problem.case
    step = base.steps[number]
    remove(spans, lambda gone: problem.attempt(replace_step(base, number, cutter(step, gone))))
