"""Every byte of a case comes from the case (field report H11), wherever the case lies."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kv_canary_fuzz.harness.execution.arena import allocate, fill, lay_out_batch
from kv_canary_fuzz.harness.execution.layout import ALIGNMENT, GUARD_BYTES, lay_out
from kv_canary_fuzz.strategies.case import MOST_SHIFT, Case, Column, Source, VerifyStep
from kv_canary_fuzz.strategies.content import Content, Patch
from kv_canary_fuzz.strategies.prng import case_at


def filled(cases: list[Case]) -> tuple[np.ndarray, list[np.ndarray]]:
    batch = lay_out_batch(cases)
    buffer = allocate(batch.size)
    fill(batch, buffer)
    ends = [*batch.bases[1:], batch.size]
    return buffer, [buffer[a:b].copy() for a, b in zip(batch.bases, ends, strict=True)]


@given(st.integers(0, 10**6), st.integers(1, 5))
def test_a_case_has_the_same_bytes_in_any_batch(index: int, others: int) -> None:
    case = case_at(11, index, "all")
    _, [alone] = filled([case])
    _, parts = filled([*(case_at(12, n, "all") for n in range(others)), case])
    assert np.array_equal(alone, parts[-1])


@given(st.integers(0, 10**6))
def test_regions_are_aligned_and_guarded(index: int) -> None:
    layout = lay_out(replace(case_at(13, index, "all"), shift=0))
    end = 0
    for region in dict.fromkeys(layout.regions.values()):
        assert region.offset % ALIGNMENT == 0
        assert region.offset - end >= GUARD_BYTES
        end = region.end
    assert layout.size - end >= GUARD_BYTES


@given(st.integers(0, 10**6), st.integers(0, MOST_SHIFT))
def test_a_shift_moves_each_tensor_as_far_as_its_type_allows(index: int, shift: int) -> None:
    case = replace(case_at(13, index, "all"), shift=shift)
    regions = lay_out(case).regions
    moved = {name: region.offset % ALIGNMENT for name, region in regions.items()}
    units = {"canary_buf": 8, "violation_write_index": 4, "real_kv_sources[0].tensor": 16}
    for name, unit in units.items():
        assert moved.get(name, shift // unit * unit) == shift // unit * unit
    ends = [0, *(region.end for region in dict.fromkeys(regions.values()))]
    starts = [*(region.offset for region in dict.fromkeys(regions.values())), lay_out(case).size]
    assert all(start - end >= GUARD_BYTES for start, end in zip(starts, ends, strict=True))


def test_equal_steps_share_their_tensors() -> None:
    case = replace(case_at(13, 1), shift=0)
    again = replace(case, steps=case.steps * 2)
    once, twice = lay_out(case), lay_out(again)
    assert once.size == twice.size
    count = len(case.steps)
    for name, region in once.regions.items():
        assert twice.regions[name] == region
        if name.startswith("steps["):
            number, rest = name.removeprefix("steps[").split("]", 1)
            assert twice.regions[f"steps[{int(number) + count}]{rest}"] == region


def test_descriptions_become_bytes() -> None:
    column = Column(values=(1, -1), length=5, fill=7, tail=(9,))
    case = Case(
        num_slots=2,
        canary_buf=Content(fill=0xAB, patches=(Patch(offset=3, hex="0102"),)),
        ring_capacity=1,
        violation_ring=Content(seed=5),
        violation_write_index=-3,
        slot_run_counter=-1,
        kernel_run_counter=2**62,
        real_kv_sources=(
            Source(rows=2, row_bytes=16, page_size=1, num_bytes_per_token=16, read_bytes=16),
        ),
        steps=(
            VerifyStep(
                verify_slot_indices=column,
                verify_expected_tokens=column,
                verify_expected_positions=column,
                verify_prev_slot_indices=column,
                verify_num_valid=2,
            ),
        ),
    )
    buffer, _ = filled([case])
    layout = lay_out(case)

    def region(name: str) -> np.ndarray:
        offset, size = layout.regions[name]
        return buffer[offset : offset + size]

    assert bytes(region("canary_buf")) == b"\xab" * 3 + b"\x01\x02" + b"\xab" * 59
    assert region("violation_write_index").view(np.int32).tolist() == [-3]
    assert region("slot_run_counter").view(np.int64).tolist() == [-1]
    assert region("kernel_run_counter").view(np.int64).tolist() == [2**62]
    assert not region("real_kv_sources[0].tensor").any()
    slots = region("steps[0].plan.verify_slot_indices").view(np.int64)
    assert slots.tolist() == [1, -1, 7, 7, 9]
    assert region("steps[0].plan.enable").view(np.int32).tolist() == [1]
