"""The numbers of a case one by one: where each stands, how to read it, how to change many at once.

Bytes of contents are not here (see `words`), nor is what a case has a number of (requests, slots).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from ..case import Case, Column, CorruptStep, Step, WriteStep
from ..columns import expand

SHORT = 64
"""Columns up to this long are handled number by number; of longer ones the fill is one number."""
SCALAR = -1
FILL = -2
CASE = -1

CASE_SCALARS = ("schedule", "violation_write_index", "slot_run_counter", "kernel_run_counter")
WRITE_SCALARS = ("kernel_kind", "enable_chain_position_assert", "write_num_valid_reqs")
VERIFY_SCALARS = ("kernel_kind", "enable", "verify_num_valid")
REQUEST_COLUMNS = ("write_offsets", "write_seed_slot_indices")
ENTRY_COLUMNS = (
    "out_cache_loc",
    "expected_input_positions",
    "expected_input_tokens",
    "positions",
    "input_ids",
)
VERIFY_COLUMNS = (
    "verify_slot_indices",
    "verify_prev_slot_indices",
    "verify_expected_tokens",
    "verify_expected_positions",
)
SLOT_COLUMNS = (
    "out_cache_loc",
    "write_seed_slot_indices",
    "verify_slot_indices",
    "verify_prev_slot_indices",
)
TOKEN_COLUMNS = ("input_ids", "expected_input_tokens", "verify_expected_tokens")
POSITION_COLUMNS = ("positions", "expected_input_positions", "verify_expected_positions")

NEUTRAL = {"write_seed_slot_indices": -1, "enable": 1}
"""The values that say least where that is not 0: no seed, enabled."""


class Site(NamedTuple):
    """A number: of the case (``step`` is CASE) or of a step; in a column ``at`` an index."""

    step: int
    field: str
    at: int = SCALAR

    @property
    def neutral(self) -> int:
        return NEUTRAL.get(self.field, 0)


def column_names(step: Step) -> tuple[str, ...]:
    """The columns that the step has, those first whose numbers are better small."""
    if isinstance(step, CorruptStep):
        return ()
    if isinstance(step, WriteStep):
        names = REQUEST_COLUMNS + ENTRY_COLUMNS
        return tuple(name for name in names if getattr(step, name) is not None)
    return VERIFY_COLUMNS


def column_sites(step: int, field: str, column: Column) -> Iterator[Site]:
    if column.length <= SHORT:
        yield from (Site(step, field, index) for index in range(column.length))
        return
    first_of_tail = column.length - len(column.tail)
    yield from (Site(step, field, index) for index in range(len(column.values)))
    yield from (Site(step, field, index) for index in range(first_of_tail, column.length))
    if first_of_tail > len(column.values):
        yield Site(step, field, FILL)


def scalar_names(step: Step) -> tuple[str, ...]:
    if isinstance(step, CorruptStep):
        return ()
    return WRITE_SCALARS if isinstance(step, WriteStep) else VERIFY_SCALARS


def sites(case: Case) -> Iterator[Site]:
    """Every number, those first that are better small where only one of two can be."""
    yield from (Site(CASE, name) for name in CASE_SCALARS)
    for number, step in enumerate(case.steps):
        yield from (Site(number, name) for name in scalar_names(step))
        for name in column_names(step):
            yield from column_sites(number, name, getattr(step, name))


def value(case: Case, site: Site) -> int:
    owner = case if site.step == CASE else case.steps[site.step]
    found = getattr(owner, site.field)
    if site.at == SCALAR:
        return int(found)
    return int(found.fill if site.at == FILL else number_at(found, site.at))


def number_at(column: Column, index: int) -> int:
    if index < len(column.values):
        return column.values[index]
    behind = index - (column.length - len(column.tail))
    return column.tail[behind] if behind >= 0 else column.fill


def put(case: Case, numbers: Mapping[Site, int]) -> Case:
    """The case with other numbers at some sites."""
    changes: dict[int, dict[str, dict[int, int]]] = {}
    for site, number in numbers.items():
        changes.setdefault(site.step, {}).setdefault(site.field, {})[site.at] = number
    steps = list(case.steps)
    for step, fields in changes.items():
        if step != CASE:
            steps[step] = replace(steps[step], **_changed(steps[step], fields))
    return replace(case, steps=tuple(steps), **_changed(case, changes.get(CASE, {})))


def _changed(owner: Case | Step, fields: Mapping[str, Mapping[int, int]]) -> dict[str, Any]:
    return {
        name: numbers[SCALAR] if SCALAR in numbers else put_in_column(getattr(owner, name), numbers)
        for name, numbers in fields.items()
    }


def put_in_column(column: Column, numbers: Mapping[int, int]) -> Column:
    """The column with other numbers, spelt out from its nearer end on where it is long."""
    if column.length <= SHORT:
        found = list(expand(column))
        for index, number in numbers.items():
            found[index] = number
        return Column(values=tuple(found), length=column.length)
    values, tail = list(column.values), list(column.tail)
    fill = numbers.get(FILL, column.fill)
    for index, number in numbers.items():
        from_end = column.length - index
        if index == FILL:
            continue
        if index >= len(values) and from_end > len(tail):
            if index - len(values) < from_end - len(tail):
                values += [fill] * (index + 1 - len(values))
            else:
                tail = [fill] * (from_end - len(tail)) + tail
        if index < len(values):
            values[index] = number
        else:
            tail[-from_end] = number
    return Column(values=tuple(values), length=column.length, fill=fill, tail=tuple(tail))
