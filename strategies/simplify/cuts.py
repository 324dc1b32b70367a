"""Parts taken out of a case so that what refers to them still fits: entries, requests, sources."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby, pairwise
from typing import Literal

from msgspec.structs import replace

from ..case import Case, Column, CorruptStep, Fault, Faults, Flip, Step, VerifyStep, WriteStep
from ..columns import expand
from .problem import Span
from .sites import ENTRY_COLUMNS, SHORT, VERIFY_COLUMNS
from .words import source_index, source_region

MAX_SPELT = 65536
"""Numbers that a column can spell out; a longer one is mostly its fill and stays so."""
Leave = Literal["nothing", "before", "after"]


def cut(column: Column, spans: Sequence[Span]) -> Column:
    """The column without the indices of ascending, disjoint spans."""
    for start, stop in reversed(spans):
        stop = min(stop, column.length)
        if start >= stop:
            continue
        behind = column.length - len(column.tail)
        tail_start, tail_stop = max(0, start - behind), max(0, stop - behind)
        column = replace(
            column,
            values=column.values[:start] + column.values[stop:],
            tail=column.tail[:tail_start] + column.tail[tail_stop:],
            length=column.length - (stop - start),
        )
    return column


def canonical_column(column: Column) -> Column:
    """The same numbers in the one form that is used for them.

    Short columns are spelt out up to the last number that is not 0. The fill of longer ones is
    their longest run of one number, where that is longer than SHORT.
    """
    gap = column.length - len(column.values) - len(column.tail)
    if column.length > MAX_SPELT or gap > max(SHORT, column.length // 2):
        return _stripped(column)
    found = expand(column)
    if column.length > SHORT:
        start, stop = _longest_run(found)
        if stop - start > SHORT:
            return replace(column, values=found[:start], fill=found[start], tail=found[stop:])
    while found and found[-1] == 0:
        found = found[:-1]
    return Column(values=found, length=column.length)


def _stripped(column: Column) -> Column:
    """The column without spelt-out numbers that its fill would give."""
    values, tail = column.values, column.tail
    while values and values[-1] == column.fill:
        values = values[:-1]
    while tail and tail[0] == column.fill:
        tail = tail[1:]
    return replace(column, values=values, tail=tail)


def _longest_run(found: Sequence[int]) -> Span:
    """The first of the longest runs of one number."""
    best, start = (0, 0), 0
    for _, run in groupby(found):
        stop = start + sum(1 for _ in run)
        if stop - start > best[1] - best[0]:
            best = start, stop
        start = stop
    return best


def map_column(column: Column, change: Callable[[int], int]) -> Column:
    return replace(
        column,
        values=tuple(map(change, column.values)),
        fill=change(column.fill),
        tail=tuple(map(change, column.tail)),
    )


def cut_entries(step: Step, spans: Sequence[Span]) -> Step:
    """The step without some of its entries; a plan's offsets and counts follow."""
    if isinstance(step, WriteStep):
        columns = {
            name: cut(getattr(step, name), spans)
            for name in ENTRY_COLUMNS
            if getattr(step, name) is not None
        }
        moved = map_column(step.write_offsets, lambda offset: offset - _before(spans, offset))
        return replace(step, write_offsets=moved, **columns)
    if isinstance(step, VerifyStep):
        columns = {name: cut(getattr(step, name), spans) for name in VERIFY_COLUMNS}
        count = step.verify_num_valid
        return replace(step, verify_num_valid=count - _before(spans, count), **columns)
    return step


def _before(spans: Sequence[Span], index: int) -> int:
    """How many indices below ``index`` the spans hold."""
    return sum(min(stop, index) - start for start, stop in spans if start < index)


def cut_requests(step: WriteStep, spans: Sequence[Span], leave: Leave = "nothing") -> WriteStep:
    """The step without some of its requests.

    They leave nothing, where their entries are a rising sequence of ranges that go with them; or
    they leave their entries to the request "before" or "after".
    """
    if leave == "nothing":
        step = _without_ranges(step, spans)
    count, bounds = step.write_num_valid_reqs, leave != "after"
    return replace(
        step,
        write_offsets=cut(
            step.write_offsets, [(start + bounds, stop + bounds) for start, stop in spans]
        ),
        write_seed_slot_indices=cut(step.write_seed_slot_indices, spans),
        write_num_valid_reqs=count - _before(spans, count),
    )


def _without_ranges(step: WriteStep, spans: Sequence[Span]) -> WriteStep:
    offsets = expand(step.write_offsets)
    ranges = [(offsets[start], min(offsets[stop], step.input_ids.length)) for start, stop in spans]
    rising = all(0 <= start <= stop for start, stop in ranges)
    if not rising or any(one[1] > other[0] for one, other in pairwise(ranges)):
        return step
    shorter = cut_entries(step, [(start, stop) for start, stop in ranges if start < stop])
    assert isinstance(shorter, WriteStep)
    return shorter


def replace_step(case: Case, number: int, step: Step) -> Case:
    return replace(case, steps=(*case.steps[:number], step, *case.steps[number + 1 :]))


def cut_sources(case: Case, spans: Sequence[Span]) -> Case:
    """The case without some sources; edits and faults of those go, and of later ones follow."""
    gone = {index for start, stop in spans for index in range(start, stop)}
    kept = [k for k in range(len(case.real_kv_sources)) if k not in gone]
    names = {source_region(old): source_region(new) for new, old in enumerate(kept)}
    return replace(
        case,
        real_kv_sources=tuple(case.real_kv_sources[k] for k in kept),
        steps=tuple(_rename_sources(step, names) for step in case.steps),
    )


def _rename_sources(step: Step, names: dict[str, str]) -> Step:
    if not isinstance(step, CorruptStep):
        return replace(step, faults=_rename_faults(step.faults, names))
    edits = tuple(
        replace(edit, region=names.get(edit.region, edit.region))
        if isinstance(edit, Flip)
        else edit
        for edit in step.edits
        if not isinstance(edit, Flip) or source_index(edit.region) is None or edit.region in names
    )
    return replace(step, edits=edits)


def _rename_faults(faults: Faults, names: dict[str, str]) -> Faults:
    renamed: list[Fault] = []
    for fault in faults:
        index = source_index(fault.tensor)
        if index is None:
            renamed.append(fault)
        elif source_region(index) in names:
            field = fault.tensor.rpartition(".")[2]
            stem = names[source_region(index)].rpartition(".")[0]
            renamed.append(replace(fault, tensor=f"{stem}.{field}"))
    return tuple(renamed)
