"""Sections 4 and 8: what a write launch does, rule by rule."""

from __future__ import annotations

import struct

import pytest

from kv_canary_fuzz.reference.building import build_context, build_write_launch
from kv_canary_fuzz.reference.scalar_hashing import mix3, splitmix64

HEAD = splitmix64(0xC0FFEE1234567890)
INT64_MAX, INT64_MIN = 2**63 - 1, -(2**63)


def signed(value):
    return value - 2**64 if value >= 2**63 else value


def filled(*slots):
    return b"".join(struct.pack("<qqQQ", *fields) for fields in slots)


def slot(context, index):
    return struct.unpack("<qqQQ", bytes(context.canary_buf[index, :32].tolist()))


def rows(context):
    return context.violation_ring.tolist()[: context.violation_write_index.item()]


def test_the_last_of_several_entries_for_one_slot_stays(run):
    context = build_context()
    launch = build_write_launch(
        context,
        write_offsets=[0, 3],
        write_seed_slot_indices=[-1],
        input_ids=[1, 2, 3],
        positions=[4, 5, 6],
        out_cache_loc=[0, 7, 0],
    )

    run(launch)

    second = mix3(HEAD, 1, 4)
    assert slot(context, 7) == (2, 5, second, 0)
    assert slot(context, 0) == (3, 6, mix3(second, 2, 5), 0)
    assert context.slot_run_counter.tolist() == [3]


def test_a_request_may_write_over_its_own_seed_which_counts_as_it_was(run):
    context = build_context(num_slots=2, canary_buf=filled((1, 2, 3, 4), (0, 0, 0, 0)))
    launch = build_write_launch(
        context,
        write_offsets=[0, 2],
        write_seed_slot_indices=[0],
        input_ids=[8, 9],
        positions=[3, 4],
        out_cache_loc=[0, 1],
    )

    run(launch)

    running = mix3(3, 1, 2)
    assert slot(context, 0) == (8, 3, running, 0)
    assert slot(context, 1) == (9, 4, mix3(running, 8, 3), 0)


@pytest.mark.parametrize("seed", [-1, INT64_MIN, 2, INT64_MAX])
def test_a_seed_outside_the_buffer_starts_a_chain_without_position_checks(run, seed):
    context = build_context(num_slots=2, violation_ring=[(0,) * 8], enable_chain_position_assert=1)
    launch = build_write_launch(
        context,
        write_offsets=[0, 2],
        write_seed_slot_indices=[seed],
        input_ids=[8, 9],
        positions=[3, 90],
        out_cache_loc=[0, 1],
    )

    run(launch)

    assert slot(context, 0) == (8, 3, HEAD, 0)
    assert rows(context) == []


def test_an_entry_that_fails_both_checks_gives_both_rows_in_order(run):
    context = build_context(
        num_slots=2,
        canary_buf=filled((1, 2, 3, 4), (0, 0, 0, 0)),
        violation_ring=[(0,) * 8] * 4,
        enable_chain_position_assert=-5,
        kernel_kind=11,
    )
    launch = build_write_launch(
        context,
        write_offsets=[0, 4],
        write_seed_slot_indices=[0],
        input_ids=[20, 21, 22, 23],
        positions=[3, 99, 7, 8],
        out_cache_loc=[1, -1, 1, 1],
        expected_input_tokens=[20, 0, 5, 23],
        expected_input_positions=[3, 0, 6, 8],
    )

    run(launch)

    running = signed(mix3(mix3(3, 1, 2), 20, 3))
    assert rows(context) == [
        [11, 1, 7, 22, 5, running, 6, 8 | 16],
        [11, 1, 7, 22, 22, running, 4, 16],
    ]


def test_positions_wrap(run):
    context = build_context(
        num_slots=2,
        canary_buf=filled((1, INT64_MAX, 3, 4), (0, 0, 0, 0)),
        violation_ring=[(0,) * 8] * 2,
        enable_chain_position_assert=1,
    )
    launch = build_write_launch(
        context,
        write_offsets=[0, 2],
        write_seed_slot_indices=[0],
        input_ids=[5, 6],
        positions=[INT64_MIN, INT64_MIN],
        out_cache_loc=[1, 1],
    )

    run(launch)

    assert [row[2:5] + row[6:] for row in rows(context)] == [[INT64_MIN, 6, 6, INT64_MIN + 1, 16]]


def test_counters_wrap(run):
    context = build_context(slot_run_counter=INT64_MAX, kernel_run_counter=INT64_MAX)
    launch = build_write_launch(
        context,
        write_offsets=[0, 2],
        write_seed_slot_indices=[-1],
        input_ids=[5, 6],
        positions=[0, 1],
        out_cache_loc=[1, 2],
    )

    run(launch)

    assert context.slot_run_counter.tolist() == [INT64_MIN + 1]
    assert context.kernel_run_counter.tolist() == [INT64_MIN]


@pytest.mark.parametrize(
    ("offsets", "written"),
    [
        ([0, 2, 4], [0, 1, 2, 3]),
        ([-9, 2, 99], [0, 1, 2, 3]),
        ([3, 1, 2], [1]),
        ([2, INT64_MAX, 0], [2, 3]),
        ([INT64_MIN, 1, 0], [0]),
        ([4, 4, 4], []),
        ([9, 9, 9], []),
    ],
)
def test_each_requests_range_is_clamped_by_itself(run, offsets, written):
    context = build_context(num_slots=4)
    launch = build_write_launch(
        context,
        write_offsets=offsets,
        write_seed_slot_indices=[-1, -1],
        input_ids=[5, 6, 7, 8],
        positions=[0, 1, 2, 3],
        out_cache_loc=[0, 1, 2, 3],
    )

    run(launch)

    stamped = [index for index in range(4) if slot(context, index)[0]]
    assert stamped == written
    assert context.slot_run_counter.tolist() == [len(written)]


def test_bytes_past_a_slots_fields_are_nobodys(run):
    context = build_context(num_slots=3, slot_stride_bytes=40, canary_buf=bytes([0xEE] * 120))
    launch = build_write_launch(
        context,
        write_offsets=[0, 2],
        write_seed_slot_indices=[-1],
        input_ids=[0, 0],
        positions=[0, 0],
        out_cache_loc=[0, 2],
    )

    run(launch)

    untouched = context.canary_buf[:, 32:].flatten().tolist() + context.canary_buf[1].tolist()
    assert untouched == [0xEE] * 64
    assert slot(context, 2) == (0, 0, mix3(HEAD, 0, 0), 0)
