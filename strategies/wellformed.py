"""What makes a Case a case at all: sizes that match, patches and edits inside their regions."""

from __future__ import annotations

from kv_canary_fuzz.reference.consts import CANARY_SLOT_BYTES, VIOLATION_FIELDS
from kv_canary_fuzz.reference.enums import CanaryLaunchTag, RealKvHashMode

from .case import (
    LAUNCHINGS,
    MOST_SHIFT,
    Case,
    Column,
    CorruptStep,
    Flip,
    Source,
    Step,
    VerifyStep,
    WriteStep,
)
from .content import Content
from .faults import VERIFY_COLUMNS, WRITE_COLUMNS, Launch, subjects, why_not
from .values import INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN

MOST_BYTES = 256 * 2**20
"""Memory that the tensors of one case may take."""
MOST_ENTRIES = 2**20
"""Requests, or entries, of one launch."""
MOST_KEPT_BYTES = 2 * 2**30
"""Memory that the case may take when it is judged: its tensors before and after each step."""
MOST_STEPS = 64
_MOST_NUMBERS = 65536
_HEX = frozenset("0123456789abcdef")
_STRIDES = f"{CANARY_SLOT_BYTES} .. {MOST_BYTES}"
_RING_ROW_BYTES = 8 * VIOLATION_FIELDS


class MalformedCase(ValueError):
    """A value that is no case; the message is ``place: fault``."""

    def __init__(self, place: str, fault: str) -> None:
        super().__init__(f"{place}: {fault}")
        self.place = place
        self.fault = fault


def check_case(case: Case) -> None:
    """Raise MalformedCase unless the case can be laid out in memory and run."""
    _check_state(case)
    total = _state_bytes(case)
    for index, step in enumerate(case.steps):
        total += _check_step(case, step, f"steps[{index}]")
    if total > MOST_BYTES:
        raise MalformedCase("case", f"takes {total} bytes of memory, the limit is {MOST_BYTES}")
    kept = total * (len(case.steps) + 1)
    if kept > MOST_KEPT_BYTES:
        fault = f"takes {kept} bytes before and after its steps, the limit is {MOST_KEPT_BYTES}"
        raise MalformedCase("steps", fault)


def canary_bytes(case: Case) -> int:
    """The size of canary_buf."""
    return case.num_slots * case.slot_stride_bytes


def region_bytes(case: Case, region: str) -> int | None:
    """The size of a region that a Flip names; None where the case has no such region."""
    if region == "canary_buf":
        return canary_bytes(case)
    for i, source in enumerate(case.real_kv_sources):
        if region == f"real_kv_sources[{i}].tensor":
            return source.rows * source.row_bytes
    return None


def _state_bytes(case: Case) -> int:
    sources = sum(source.span for source in case.real_kv_sources)
    return canary_bytes(case) + case.ring_capacity * _RING_ROW_BYTES + sources


def _within(place: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise MalformedCase(place, f"{value} is not in {low} .. {high}")


def _check_state(case: Case) -> None:
    _within("num_slots", case.num_slots, 1, MOST_BYTES)
    stride = case.slot_stride_bytes
    if stride < CANARY_SLOT_BYTES or stride % 8 or stride > MOST_BYTES:
        raise MalformedCase("slot_stride_bytes", f"{stride} is not a multiple of 8 in {_STRIDES}")
    _within("ring_capacity", case.ring_capacity, 0, MOST_BYTES)
    _within("violation_write_index", case.violation_write_index, INT32_MIN, INT32_MAX)
    _within("slot_run_counter", case.slot_run_counter, INT64_MIN, INT64_MAX)
    _within("kernel_run_counter", case.kernel_run_counter, INT64_MIN, INT64_MAX)
    _within("schedule", case.schedule, 0, 2**64 - 1)
    if case.launching not in LAUNCHINGS:
        raise MalformedCase("launching", f"{case.launching!r} is none of {', '.join(LAUNCHINGS)}")
    _within("shift", case.shift, 0, MOST_SHIFT)
    _within("real_kv_hash_mode", case.real_kv_hash_mode, 0, len(RealKvHashMode) - 1)
    _check_content("canary_buf", case.canary_buf, canary_bytes(case))
    _check_content("violation_ring", case.violation_ring, case.ring_capacity * _RING_ROW_BYTES)
    if len(case.real_kv_sources) > 4:
        raise MalformedCase("real_kv_sources", f"{len(case.real_kv_sources)} are more than 4")
    for i, source in enumerate(case.real_kv_sources):
        _check_source(case, source, f"real_kv_sources[{i}]")
    if len(case.steps) > MOST_STEPS:
        raise MalformedCase("steps", f"{len(case.steps)} are more than {MOST_STEPS}")


def _check_content(place: str, content: Content, size: int) -> None:
    _within(f"{place}.fill", content.fill, 0, 255)
    if content.seed is not None:
        _within(f"{place}.seed", content.seed, 0, 2**64 - 1)
    for i, patch in enumerate(content.patches):
        if len(patch.hex) % 2 or not _HEX.issuperset(patch.hex):
            raise MalformedCase(f"{place}.patches[{i}].hex", "is not pairs of hexadecimal digits")
        if patch.offset < 0 or patch.offset + len(patch.hex) // 2 > size:
            raise MalformedCase(
                f"{place}.patches[{i}]",
                f"{len(patch.hex) // 2} bytes at {patch.offset} leave the region of {size}",
            )


def _check_source(case: Case, source: Source, place: str) -> None:
    _within(f"{place}.page_size", source.page_size, 1, MOST_BYTES)
    _within(f"{place}.num_bytes_per_token", source.num_bytes_per_token, 16, MOST_BYTES)
    _within(f"{place}.read_bytes", source.read_bytes, 16, source.num_bytes_per_token)
    _within(f"{place}.row_bytes", source.row_bytes, 16, MOST_BYTES)
    _within(f"{place}.row_gap", source.row_gap, 0, MOST_BYTES)
    for name in ("num_bytes_per_token", "read_bytes", "row_bytes", "row_gap"):
        if getattr(source, name) % 16:
            raise MalformedCase(f"{place}.{name}", f"{getattr(source, name)} is not 16 times some")
    used = source.page_size * source.num_bytes_per_token
    if source.row_bytes < used:
        raise MalformedCase(
            f"{place}.row_bytes", f"{source.row_bytes} cannot hold a page of {used}"
        )
    if source.rows * source.page_size < case.num_slots:
        raise MalformedCase(f"{place}.rows", f"{source.rows} rows do not cover num_slots")
    _within(f"{place}.rows", source.rows, 1, MOST_BYTES)
    _check_content(f"{place}.content", source.content, source.rows * source.row_bytes)


def _check_column(place: str, column: Column, length: int) -> None:
    if column.length != length:
        raise MalformedCase(place, f"length {column.length} where {length} is needed")
    values, tail = column.values, column.tail
    if len(values) + len(tail) > length:
        raise MalformedCase(place, f"{len(values) + len(tail)} numbers in a length of {length}")
    for numbers in (values, tail, (column.fill,)):
        if len(numbers) > _MOST_NUMBERS:
            raise MalformedCase(place, f"{len(numbers)} numbers are more than {_MOST_NUMBERS}")
        if numbers and not INT64_MIN <= min(numbers) <= max(numbers) <= INT64_MAX:
            raise MalformedCase(place, "a number is not an int64")


def _check_step(case: Case, step: Step, place: str) -> int:
    """Raise where the step is malformed; the bytes of its own tensors otherwise."""
    if isinstance(step, CorruptStep):
        _check_edits(case, step, place)
        return 0
    _within(f"{place}.kernel_kind", step.kernel_kind, 0, len(CanaryLaunchTag) - 1)
    if isinstance(step, WriteStep):
        numbers = _check_write(step, place)
    else:
        numbers = _check_verify(step, place)
    if step.faults:
        _check_faults(case, step, place)
    return numbers * 8


def _check_write(step: WriteStep, place: str) -> int:
    _within(f"{place}.write_num_valid_reqs", step.write_num_valid_reqs, INT32_MIN, INT32_MAX)
    enable = step.enable_chain_position_assert
    _within(f"{place}.enable_chain_position_assert", enable, INT32_MIN, INT32_MAX)
    capacity, tokens = step.write_seed_slot_indices.length, step.out_cache_loc.length
    _within(f"{place}.write_seed_slot_indices.length", capacity, 0, MOST_ENTRIES)
    _within(f"{place}.out_cache_loc.length", tokens, 0, MOST_ENTRIES)
    numbers = 0
    for name in WRITE_COLUMNS.values():
        column: Column | None = getattr(step, name)
        if name.startswith("expected"):
            if (column is not None) is not step.enable_write_input_assert:
                raise MalformedCase(f"{place}.{name}", "is there if and only if the assert is on")
            if column is None:
                continue
        assert column is not None
        length = {"write_offsets": capacity + 1, "write_seed_slot_indices": capacity}
        _check_column(f"{place}.{name}", column, length.get(name, tokens))
        numbers += column.length
    return numbers


def _check_verify(step: VerifyStep, place: str) -> int:
    _within(f"{place}.verify_num_valid", step.verify_num_valid, INT32_MIN, INT32_MAX)
    _within(f"{place}.enable", step.enable, INT32_MIN, INT32_MAX)
    capacity = step.verify_slot_indices.length
    _within(f"{place}.verify_slot_indices.length", capacity, 0, MOST_ENTRIES)
    for name in VERIFY_COLUMNS.values():
        _check_column(f"{place}.{name}", getattr(step, name), capacity)
    return capacity * len(VERIFY_COLUMNS)


def _check_edits(case: Case, step: CorruptStep, place: str) -> None:
    for i, edit in enumerate(step.edits):
        at = f"{place}.edits[{i}]"
        if isinstance(edit, Flip):
            size = region_bytes(case, edit.region)
            if size is None:
                raise MalformedCase(f"{at}.region", f"there is no {edit.region}")
            _within(f"{at}.offset", edit.offset, 0, size - 1)
            _within(f"{at}.mask", edit.mask, 1, 255)
        else:
            _within(f"{at}.first", edit.first, 0, case.num_slots - 1)
            _within(f"{at}.second", edit.second, 0, case.num_slots - 1)


def _check_faults(case: Case, step: Launch, place: str) -> None:
    met: set[str] = set()
    for i, fault in enumerate(step.faults):
        reason = why_not(case, step, fault)
        if reason is None and subjects(fault) & met:
            reason = "another fault is put upon the same thing"
        if reason is not None:
            raise MalformedCase(f"{place}.faults[{i}]", reason)
        met |= subjects(fault)
