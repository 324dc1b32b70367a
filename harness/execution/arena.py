"""The bytes of a batch of cases: one buffer, filled from descriptions alone.

Every byte comes from the cases: regions from their contents, everything else from the guard
pattern, which depends only on the offset within the case. The same case gives the same bytes in
any batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kv_canary_fuzz.strategies.case import Case, Column, Source
from kv_canary_fuzz.strategies.content import Content, expand_words

from .layout import ALIGNMENT, Layout, lay_out, source_region, step_columns, step_flags, step_region

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.int64]

_GUARD_SEED = 0x6B765F6775617264
_GUARD_PERIOD_WORDS = 8192
_GUARD = expand_words(
    np.full(_GUARD_PERIOD_WORDS, _GUARD_SEED, np.uint64),
    np.arange(_GUARD_PERIOD_WORDS, dtype=np.uint64),
).view(np.uint8)


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Cases with their layouts: case k lies at ``bases[k]``, all of them take ``size`` bytes."""

    cases: tuple[Case, ...]
    layouts: tuple[Layout, ...]
    bases: tuple[int, ...]
    size: int


def lay_out_batch(cases: Sequence[Case]) -> Batch:
    return batch_of(tuple(cases), tuple(lay_out(case) for case in cases))


def batch_of(cases: tuple[Case, ...], layouts: tuple[Layout, ...]) -> Batch:
    """The batch of cases that are laid out already."""
    ends = np.cumsum([0, *(layout.size for layout in layouts)]).tolist()
    return Batch(cases=cases, layouts=layouts, bases=tuple(ends[:-1]), size=ends[-1])


def allocate(size: int) -> Bytes:
    """An uninitialised buffer of ``size`` bytes whose address is a multiple of 64."""
    raw = np.empty(size + ALIGNMENT, np.uint8)
    shift = -raw.ctypes.data % ALIGNMENT
    return raw[shift : shift + size]


def fill(batch: Batch, buffer: Bytes) -> None:
    """Write the bytes before the first step into ``buffer``, of at least ``batch.size`` bytes."""
    words = buffer.view(np.int64)
    ints = buffer.view(np.int32)
    contents: list[tuple[int, int, Content]] = []
    for case, layout, base in zip(batch.cases, batch.layouts, batch.bases, strict=True):
        _fill_guards(buffer[base : base + layout.size])
        regions = layout.regions
        for name, content in _described_regions(case):
            region = regions[name]
            contents.append((base + region.offset, region.size, content))
        for index, source in enumerate(case.real_kv_sources):
            start = base + regions[source_region(index)].offset
            if source.row_gap:
                _fill_apart(buffer[start : start + source.span], source)
            else:
                contents.append((start, source.span, source.content))
        ints[(base + regions["violation_write_index"].offset) // 4] = case.violation_write_index
        words[(base + regions["slot_run_counter"].offset) // 8] = case.slot_run_counter
        words[(base + regions["kernel_run_counter"].offset) // 8] = case.kernel_run_counter
        for number, step in enumerate(case.steps):
            for name, column in step_columns(step):
                start = (base + regions[step_region(number, name)].offset) // 8
                _fill_column(words[start : start + column.length], column)
            for name, value in step_flags(step):
                ints[(base + regions[step_region(number, name)].offset) // 4] = value
    _fill_contents(buffer, contents)


def _described_regions(case: Case) -> list[tuple[str, Content]]:
    return [("canary_buf", case.canary_buf), ("violation_ring", case.violation_ring)]


def _fill_apart(target: Bytes, source: Source) -> None:
    """Fill rows that lie apart; what lies between them stays."""
    packed = allocate(source.rows * source.row_bytes)
    _fill_contents(packed, [(0, packed.size, source.content)])
    shape, step = (source.rows, source.row_bytes), source.row_step
    np.lib.stride_tricks.as_strided(target, shape, (step, 1))[:] = packed.reshape(shape)


def _fill_guards(target: Bytes) -> None:
    period = _GUARD.size
    for start in range(0, target.size, period):
        part = target[start : start + period]
        part[:] = _GUARD[: part.size]


def _fill_column(target: Words, column: Column) -> None:
    head = len(column.values)
    tail = len(column.tail)
    if head:
        target[:head] = column.values
    if head + tail < column.length:
        target[head : column.length - tail] = column.fill
    if tail:
        target[column.length - tail :] = column.tail


def _fill_contents(buffer: Bytes, contents: list[tuple[int, int, Content]]) -> None:
    """Expand all seeded regions in one pass; ``contents`` holds (offset, size, description)."""
    words = buffer.view(np.uint64)
    seeded = [(offset, size // 8, c.seed) for offset, size, c in contents if c.seed is not None]
    counts = np.array([count for _, count, _ in seeded], np.int64)
    starts = np.cumsum(counts) - counts
    counters = np.arange(counts.sum()) - np.repeat(starts, counts)
    seeds = np.repeat(np.array([seed for *_, seed in seeded], np.uint64), counts)
    expanded = expand_words(seeds, counters.view(np.uint64))
    position = 0
    for offset, count, _ in seeded:
        words[offset // 8 : offset // 8 + count] = expanded[position : position + count]
        position += count
    for offset, size, content in contents:
        if content.seed is None:
            buffer[offset : offset + size] = content.fill
        for patch in content.patches:
            data = np.frombuffer(bytes.fromhex(patch.hex), np.uint8)
            start = offset + patch.offset
            buffer[start : start + data.size] = data
