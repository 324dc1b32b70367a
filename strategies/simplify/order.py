"""The total order of cases: which of two is the simpler one to read."""

from __future__ import annotations

from typing import Any

import msgspec

from ..case import LAUNCHINGS, Case, Column, CorruptStep, Fault, Flip, VerifyStep, WriteStep
from ..columns import expand
from .sites import CASE_SCALARS, NEUTRAL, SHORT, column_names, scalar_names
from .words import Words, content_of, patched_words, region_names

Complexity = tuple[Any, ...]


def complexity(case: Case) -> Complexity:
    """A key that orders cases; the smaller is the simpler, and only equal cases tie.

    First how launches are put and where tensors begin, then counts (steps, faults, requests,
    entries, edits, sources), then what is switched on, then bytes and geometry, then contents
    (zeros before a fill before a seed), then numbers: how many are not neutral, how long they are,
    and where they stand; last where words of contents stand.
    """
    words = [patched_words(content_of(case, region)) for region in region_names(case)]
    return (
        LAUNCHINGS.index(case.launching),
        case.shift,
        *_counts(case),
        *_switches(case),
        *_sizes(case),
        *_contents(case, words),
        *_numbers(case),
        _places(words),
        _edits(case),
        _faults(case),
        msgspec.json.encode(case),
    )


def magnitude(number: int) -> tuple[int, bool]:
    """The order of numbers: 0, 1, -1, 2, -2 and so on."""
    return abs(number), number < 0


def _counts(case: Case) -> tuple[int, ...]:
    requests = entries = faults = edits = 0
    for step in case.steps:
        if isinstance(step, CorruptStep):
            edits += len(step.edits)
            continue
        faults += len(step.faults)
        if isinstance(step, WriteStep):
            requests += step.write_seed_slot_indices.length + _active(
                step.write_num_valid_reqs, step.write_seed_slot_indices
            )
            entries += step.input_ids.length
        else:
            entries += step.verify_slot_indices.length + _active(
                step.verify_num_valid, step.verify_slot_indices
            )
    return len(case.steps), faults, requests, entries, edits, len(case.real_kv_sources)


def _active(count: int, column: Column) -> int:
    return min(max(count, 0), column.length)


def _switches(case: Case) -> tuple[int, ...]:
    on = 0
    for step in case.steps:
        if isinstance(step, WriteStep):
            on += step.enable_write_input_assert + (step.enable_chain_position_assert != 0)
            on += (step.expected_input_tokens is not None) + (
                step.expected_input_positions is not None
            )
        elif isinstance(step, VerifyStep):
            on += step.check_verify_expected_token + (step.enable == 0)
    return case.real_kv_hash_mode, on


def _sizes(case: Case) -> tuple[Any, ...]:
    sources = case.real_kv_sources
    return (
        case.num_slots,
        case.slot_stride_bytes,
        case.ring_capacity,
        sum(source.rows * source.row_bytes for source in sources),
        tuple(
            (s.row_bytes, s.page_size, s.num_bytes_per_token, s.read_bytes, s.rows, s.row_gap)
            for s in sources
        ),
    )


def _contents(case: Case, words: list[Words]) -> tuple[Any, ...]:
    contents = [content_of(case, region) for region in region_names(case)]
    every = [word for region in words for word in region.values() if word]
    return (
        sum(content.seed is not None for content in contents),
        sum(content.fill != 0 for content in contents),
        len(every),
        sum(word.bit_length() for word in every),
        tuple((content.seed or 0, content.fill, len(content.patches)) for content in contents),
    )


def _places(words: list[Words]) -> tuple[Any, ...]:
    return tuple(tuple((i, magnitude(word)) for i, word in region.items()) for region in words)


def _numbers(case: Case) -> tuple[Any, ...]:
    """How far numbers are from neutral, in the order of `sites`; a long column's fill is last."""
    away = [getattr(case, name) for name in CASE_SCALARS]
    repeats = 0
    for step in case.steps:
        away += [getattr(step, name) - NEUTRAL.get(name, 0) for name in scalar_names(step)]
        for name in column_names(step):
            column, neutral = getattr(step, name), NEUTRAL.get(name, 0)
            if column.length <= SHORT:
                spelt = expand(column)
            else:
                spelt = (*column.values, *column.tail, column.fill)
                repeats += (column.length - len(spelt)) * (column.fill != neutral)
            away += [number - neutral for number in spelt] if neutral else spelt
    heavy = [number for number in away if number]
    return (
        len(heavy) + repeats,
        sum(number.bit_length() for number in heavy),
        tuple(map(magnitude, away)),
        sum(_spelled(case)),
    )


def _spelled(case: Case) -> list[int]:
    """How many numbers each column spells out, those of its tail twice."""
    columns = [
        column
        for step in case.steps
        for column in msgspec.structs.asdict(step).values()
        if isinstance(column, Column)
    ]
    return [len(c.values) + 2 * len(c.tail) + (c.fill != 0) for c in columns]


PLAIN_FAULTS = (
    Fault(kind="dtype", tensor="canary_buf"),
    Fault(kind="device", tensor="canary_buf"),
    Fault(kind="not_contiguous", tensor="canary_buf"),
    Fault(kind="misaligned", tensor="canary_buf", amount=4),
    Fault(kind="hash_mode", amount=-1),
    Fault(kind="slot_stride", amount=1),
)
"""Faults that any launch can have, plainest first."""


def fault_key(fault: Fault) -> tuple[Any, ...]:
    """The order of faults: kinds that any launch can have first, and the plainest tensors."""
    kinds = [plain.kind for plain in PLAIN_FAULTS]
    kind = kinds.index(fault.kind) if fault.kind in kinds else len(kinds)
    special = "[" in fault.tensor, "." in fault.tensor, fault.tensor != "canary_buf"
    return kind, fault.kind, special, fault.tensor, magnitude(fault.amount)


def _faults(case: Case) -> tuple[Any, ...]:
    return tuple(
        tuple(map(fault_key, step.faults))
        for step in case.steps
        if not isinstance(step, CorruptStep)
    )


def _edits(case: Case) -> tuple[Any, ...]:
    return tuple(
        (edit.offset, edit.mask, edit.region)
        if isinstance(edit, Flip)
        else (edit.first, edit.second, "")
        for step in case.steps
        if isinstance(step, CorruptStep)
        for edit in step.edits
    )
