"""Where every tensor of a case lies in one flat buffer.

A layout is a pure function of the case. Regions start at multiples of 64 bytes, or as far behind
one as the case's shift and their own alignment say, with at least one guard band of 64 bytes
before, between and after them, so that a stray write lands on bytes that the comparison looks at.
Steps that are equal share their tensors: the same launch again, on what the first one left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

from msgspec import Struct

from kv_canary_fuzz.reference import consts
from kv_canary_fuzz.strategies.case import Case, Column, CorruptStep, Step, VerifyStep, WriteStep

ALIGNMENT = 64
GUARD_BYTES = 64
SOURCE_ALIGNMENT = 16
WORD_ALIGNMENT = 8
INT_ALIGNMENT = 4
RING_ROW_BYTES = consts.VIOLATION_FIELDS * 8


class Region(Struct, frozen=True, array_like=True, gc=False):
    """``size`` bytes from ``offset`` on, counted from the first byte of the case."""

    offset: int
    size: int

    def __iter__(self) -> Iterator[int]:
        return iter((self.offset, self.size))

    @property
    def end(self) -> int:
        return self.offset + self.size


class Layout(Struct, frozen=True, array_like=True):
    """The regions of a case by name, in order of offset, and the bytes they take with guards."""

    regions: dict[str, Region]
    size: int

    def locate(self, offset: int) -> tuple[str, int] | None:
        """The region that holds the byte, and the offset within it; None for a guard byte."""
        for name, region in self.regions.items():
            if region.offset <= offset < region.end:
                return name, offset - region.offset
        return None


def in_memory(case: Case, region: str, offset: int) -> int:
    """Where a byte that a case names by its offset lies, from the start of its region.

    Cases count the bytes of a source's rows alone, also where rows lie apart.
    """
    for index, source in enumerate(case.real_kv_sources):
        if source.row_gap and region == source_region(index):
            row, column = divmod(offset, source.row_bytes)
            return row * source.row_step + column
    return offset


def between_rows(case: Case, region: str, offset: int) -> bool:
    """Whether the byte of a region lies between two rows of a source, where it is nobody's."""
    return any(
        source.row_gap
        and region == source_region(index)
        and offset % source.row_step >= source.row_bytes
        for index, source in enumerate(case.real_kv_sources)
    )


@cache
def source_region(index: int) -> str:
    return f"real_kv_sources[{index}].tensor"


@cache
def step_region(step: int, name: str) -> str:
    return f"steps[{step}].{name}"


_WRITE_COLUMNS = (
    ("plan.write_offsets", "write_offsets"),
    ("plan.write_seed_slot_indices", "write_seed_slot_indices"),
    ("input_ids", "input_ids"),
    ("positions", "positions"),
    ("out_cache_loc", "out_cache_loc"),
    ("expected_input_tokens", "expected_input_tokens"),
    ("expected_input_positions", "expected_input_positions"),
)
_VERIFY_COLUMNS = (
    ("plan.verify_slot_indices", "verify_slot_indices"),
    ("plan.verify_expected_tokens", "verify_expected_tokens"),
    ("plan.verify_expected_positions", "verify_expected_positions"),
    ("plan.verify_prev_slot_indices", "verify_prev_slot_indices"),
)
_WRITE_FLAGS = ("plan.write_num_valid_reqs", "enable_chain_position_assert")
_VERIFY_FLAGS = ("plan.verify_num_valid", "plan.enable", "enable_chain_position_assert")


def step_columns(step: Step) -> list[tuple[str, Column]]:
    """The int64 tensors of a launch, by the name that a refusal would use."""
    if isinstance(step, CorruptStep):
        return []
    fields = _WRITE_COLUMNS if isinstance(step, WriteStep) else _VERIFY_COLUMNS
    columns = [(name, getattr(step, field)) for name, field in fields]
    return [named for named in columns if named[1] is not None]


def step_flags(step: Step) -> list[tuple[str, int]]:
    """The int32 [1] tensors of a launch, by the name that a refusal would use."""
    values: tuple[int, ...] = ()
    if isinstance(step, WriteStep):
        values = step.write_num_valid_reqs, step.enable_chain_position_assert
    elif isinstance(step, VerifyStep):
        values = step.verify_num_valid, step.enable, 0
    return list(zip(_flag_names(step), values, strict=True))


def _flag_names(step: Step) -> tuple[str, ...]:
    if isinstance(step, CorruptStep):
        return ()
    return _WRITE_FLAGS if isinstance(step, WriteStep) else _VERIFY_FLAGS


def lay_out(case: Case) -> Layout:
    """Place every region of ``case``: the state first, then each step's tensors."""
    words, ints, rows = (
        case.shift // unit * unit for unit in (WORD_ALIGNMENT, INT_ALIGNMENT, SOURCE_ALIGNMENT)
    )
    regions: dict[str, Region] = {}
    state = [
        ("canary_buf", case.num_slots * case.slot_stride_bytes, words),
        ("violation_ring", case.ring_capacity * RING_ROW_BYTES, words),
        ("violation_write_index", 4, ints),
        ("slot_run_counter", 8, words),
        ("kernel_run_counter", 8, words),
    ]
    for index, source in enumerate(case.real_kv_sources):
        state.append((source_region(index), source.span, rows))
    end = _place(regions, 0, state)
    steps = case.steps
    for number, step in enumerate(steps):
        if isinstance(step, CorruptStep):
            continue
        first = steps.index(step)
        if first < number:
            _share(regions, step, number, first)
            continue
        tensors = [
            (step_region(number, name), column.length * 8, words)
            for name, column in step_columns(step)
        ]
        tensors += [(step_region(number, name), 4, ints) for name in _flag_names(step)]
        end = _place(regions, end, tensors)
    return Layout(regions, (end + GUARD_BYTES + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT)


def _place(regions: dict[str, Region], end: int, tensors: Iterable[tuple[str, int, int]]) -> int:
    """Put tensors, given as name, size and shift, behind ``end``; where the last of them ends."""
    for name, size, shift in tensors:
        offset = (end + GUARD_BYTES + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT + shift
        regions[name] = Region(offset, size)
        end = offset + size
    return end


def _share(regions: dict[str, Region], step: Step, number: int, first: int) -> None:
    names = (*(name for name, _ in step_columns(step)), *_flag_names(step))
    for name in names:
        regions[step_region(number, name)] = regions[step_region(first, name)]
