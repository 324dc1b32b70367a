"""Faults that people met in kernels like these, each as its smallest input with the right value."""

from __future__ import annotations

import struct

import pytest
import torch

from kv_canary_fuzz.reference import RealKvSource, VerifyOrWriteContext
from kv_canary_fuzz.reference.building import (
    build_context,
    build_source,
    build_verify_launch,
    build_write_launch,
)
from kv_canary_fuzz.reference.scalar_hashing import fold_sources, mix3, splitmix64

HEAD = splitmix64(0xC0FFEE1234567890)
INT64_MAX, INT64_MIN = 2**63 - 1, -(2**63)
POISON = (-7,) * 8


def signed(value):
    return value - 2**64 if value >= 2**63 else value


def slot(context, index):
    """The token, position, prev_hash and real-KV hash stored in a slot, the hashes unsigned."""
    return struct.unpack("<qqQQ", bytes(context.canary_buf[index, :32].tolist()))


def stamps(*slots):
    """The bytes of a canary buffer of stride 32 that holds ``slots``."""
    return b"".join(struct.pack("<qqQQ", *fields) for fields in slots)


def counters(context):
    return context.slot_run_counter.item(), context.kernel_run_counter.item()


def write_one(context, *, token=1, position=0, slot=0, seed=-1):
    return build_write_launch(
        context,
        write_offsets=[0, 1],
        write_seed_slot_indices=[seed],
        input_ids=[token],
        positions=[position],
        out_cache_loc=[slot],
    )


def write_chain(context, slots, *, seed=-1, **changes):
    """One request that writes tokens 10, 11, ... at positions 0, 1, ... to ``slots``."""
    values = {
        "write_offsets": [0, len(slots)],
        "write_seed_slot_indices": [seed],
        "input_ids": [10 + place for place in range(len(slots))],
        "positions": list(range(len(slots))),
        "out_cache_loc": slots,
        **changes,
    }
    return build_write_launch(context, **values)


def verify_one(context, *, slot, position=0, previous=-1, **changes):
    return build_verify_launch(
        context,
        verify_slot_indices=[slot],
        verify_expected_positions=[position],
        verify_prev_slot_indices=[previous],
        **changes,
    )


@pytest.mark.parametrize("padding", [0, 16])
def test_k1_k14_rows_are_addressed_by_their_step(run, padding):
    page_size, width = 16, 32
    step = page_size * width + padding
    data = bytes(7 * place % 251 for place in range(3 * step))
    source = build_source(data, rows=3, page_size=page_size, num_bytes_per_token=width)
    context = build_context(num_slots=33, real_kv_sources=[source], real_kv_hash_mode=2)

    run(write_chain(context, [1, 15, 16, 32]))

    for index, start in [(1, 32), (15, 480), (16, step), (32, 2 * step)]:
        assert slot(context, index)[3] == fold_sources([data[start : start + width]])


def test_k2_row_too_narrow_for_its_slots():
    with pytest.raises(ValueError, match=r"at least 64 bytes \(.*\), got 32$"):
        build_source(bytes(32), rows=1, page_size=4, num_bytes_per_token=16)


def test_k3_no_counter_moves_before_a_refusal(run):
    source = build_source(bytes(32), rows=2, page_size=1, num_bytes_per_token=16)
    context = build_context(num_slots=3, real_kv_sources=[source], real_kv_hash_mode=2)

    for launch in (write_one(context, slot=2), verify_one(context, slot=2)):
        with pytest.raises(ValueError, match=r"must cover 3 slots, got 2 rows of 1$"):
            run(launch)

    assert counters(context) == (0, 0)
    assert context.violation_write_index.tolist() == [0]


def test_k4_five_sources(run):
    source = build_source(bytes(128), rows=8, page_size=1, num_bytes_per_token=16)
    context = build_context(real_kv_sources=[source] * 5)

    for launch in (write_one(context), verify_one(context, slot=1)):
        with pytest.raises(ValueError, match=r"^kv-canary: at most 4 RealKvSource .* got 5$"):
            run(launch)


@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 63, 64, 65, 511, 512, 513])
def test_k5_every_verified_entry_counts(run, count):
    context = build_context(slot_run_counter=100)
    launch = build_verify_launch(
        context,
        verify_slot_indices=[0] * 600,
        verify_expected_positions=[0] * 600,
        verify_prev_slot_indices=[0] * 600,
        verify_num_valid=count,
    )

    run(launch)

    assert counters(context) == (100 + count, 1)


def test_k6_active_counts_are_clamped_to_the_capacity(run):
    context = build_context(violation_ring=[POISON])
    run(
        build_verify_launch(
            context,
            verify_slot_indices=[0] * 5,
            verify_expected_positions=[0] * 5,
            verify_prev_slot_indices=[0] * 5,
            verify_num_valid=6,
        )
    )
    assert counters(context) == (5, 1)

    run(write_chain(context, [1, 2], write_num_valid_reqs=2))

    assert counters(context) == (7, 2)
    assert context.violation_write_index.tolist() == [0]


@pytest.mark.parametrize("skipped", [-1, 8, INT64_MAX, INT64_MIN])
def test_k7_skipped_entries_leave_no_trace(run, skipped):
    context = build_context()

    run(write_chain(context, [skipped, 3, skipped, 4, skipped]))

    assert counters(context) == (2, 1)
    assert slot(context, 3) == (11, 1, HEAD, 0)
    assert slot(context, 4) == (13, 3, mix3(HEAD, 11, 1), 0)
    assert [slot(context, index) for index in (0, 1, 2, 5, 6, 7)] == [(0, 0, 0, 0)] * 6


@pytest.mark.parametrize("previous", [0, 6, INT64_MAX])
def test_k8_predecessor_zero_is_not_checked(run, previous):
    junk = (1, 2, 3, 4)
    context = build_context(
        num_slots=6,
        canary_buf=stamps(junk, junk, junk, junk, junk, (7, 8, 99, 0)),
        violation_ring=[POISON] * 2,
        kernel_kind=3,
    )

    run(verify_one(context, slot=5, position=8, previous=previous))
    assert context.violation_write_index.tolist() == [0]

    run(verify_one(context, slot=5, position=9, previous=previous))
    assert context.violation_ring.tolist() == [[3, 5, 8, 7, -1, 99, 99, 2], list(POISON)]


@pytest.mark.parametrize("number", [-1, 2**31, -(2**31), INT64_MAX, INT64_MIN])
def test_k9_tokens_and_positions_keep_64_bits(run, number):
    context = build_context(violation_ring=[POISON])

    run(write_one(context, token=number, position=number, slot=2))
    assert slot(context, 2) == (number, number, HEAD, 0)

    run(verify_one(context, slot=2, position=number, verify_expected_tokens=[number]))
    assert context.violation_write_index.tolist() == [0]


def test_k10_position_that_does_not_follow_its_seed(run):
    context = build_context(
        num_slots=2,
        canary_buf=stamps((0, 0, 0, 0), (4, 8447, 55, 0)),
        violation_ring=[POISON] * 2,
        enable_chain_position_assert=1,
        kernel_kind=9,
    )

    run(write_one(context, token=77, position=512, slot=0, seed=1))

    running = mix3(55, 4, 8447)
    row = [9, 0, 512, 77, 77, signed(running), 8448, 16]
    assert context.violation_ring.tolist() == [row, list(POISON)]
    assert context.violation_write_index.tolist() == [1]
    assert slot(context, 0) == (77, 512, running, 0)


def test_k11_source_past_2_gib(run):
    rows = 2**31 // 4096 + 1
    tensor = torch.empty((rows, 4096), dtype=torch.uint8)
    tensor[-1] = torch.arange(4096) % 251
    source = RealKvSource(tensor=tensor, page_size=2, num_bytes_per_token=2048, read_bytes=32)
    num_slots = 2 * rows
    context = build_context(num_slots=0)
    context = _with(context, canary_buf=torch.empty((num_slots, 32), dtype=torch.uint8))
    context = _with(context, real_kv_sources=(source,), real_kv_hash_mode=2)

    run(write_one(context, slot=num_slots - 1))

    expected = fold_sources([bytes(tensor[-1, 2048:2080].tolist())])
    assert slot(context, num_slots - 1) == (1, 0, HEAD, expected)


def test_k11_canary_buffer_past_2_gib(run):
    num_slots = 67_108_865
    buf = torch.empty((num_slots, 32), dtype=torch.uint8)
    buf[0] = buf[-2] = 0
    context = _with(build_context(violation_ring=[POISON]), canary_buf=buf)

    run(write_one(context, token=5, position=6, slot=num_slots - 1))
    run(verify_one(context, slot=num_slots - 1, position=6))
    run(write_one(context, token=7, position=8, slot=num_slots - 2, seed=num_slots - 1))

    assert context.violation_write_index.tolist() == [0]
    assert slot(context, num_slots - 1) == (5, 6, HEAD, 0)
    assert slot(context, num_slots - 2) == (7, 8, mix3(HEAD, 5, 6), 0)
    assert slot(context, 0) == (0, 0, 0, 0)


def _with(context, **changes):
    return VerifyOrWriteContext(**{**vars(context), **changes})


def test_k12_rows_2_gib_apart_are_refused(run):
    memory = torch.empty(2**31 + 32, dtype=torch.uint8)
    rows = memory.as_strided((2, 16), (2**31 + 16, 1))
    source = RealKvSource(tensor=rows, page_size=1, num_bytes_per_token=16, read_bytes=16)
    context = build_context(num_slots=2, real_kv_sources=[source], real_kv_hash_mode=2)

    with pytest.raises(ValueError, match=r"^kv-canary: real_kv_sources\[0\].tensor must be cont"):
        run(write_one(context, slot=1))

    assert counters(context) == (0, 0)


def test_k13_every_source_is_checked_for_alignment(run):
    memory = torch.zeros(256, dtype=torch.uint8)
    start = -memory.data_ptr() % 16
    rows = [memory[start + 64 * k + off :][:64].view(4, 16) for k, off in ((0, 0), (1, 8))]
    sources = [
        RealKvSource(tensor=tensor, page_size=1, num_bytes_per_token=16, read_bytes=16)
        for tensor in rows
    ]
    context = build_context(num_slots=4, real_kv_sources=sources, real_kv_hash_mode=2)

    with pytest.raises(ValueError, match=r"real_kv_sources\[1\].tensor must start at a multiple"):
        run(write_one(context))


def test_k15_padding_is_no_index(run):
    context = build_context(violation_ring=[POISON] * 2, canary_buf=stamps(*[(3, 4, 5, 0)] * 8))

    run(verify_one(context, slot=-1, verify_expected_tokens=[1]))
    assert counters(context) == (1, 1)
    assert context.violation_write_index.tolist() == [0]

    run(verify_one(context, slot=2, position=4, previous=0, verify_expected_tokens=[-1]))
    assert context.violation_write_index.tolist() == [0]

    run(verify_one(context, slot=2, position=4, previous=0, verify_expected_tokens=[6]))
    assert context.violation_ring.tolist() == [[0, 2, 4, 3, 6, 5, 5, 32], list(POISON)]


@pytest.mark.parametrize("capacity", [65535, 65536, 70000])
def test_k16_large_write_capacities(run, capacity):
    context = build_context()

    run(
        write_chain(
            context,
            [5],
            write_offsets=[0] * capacity + [1],
            write_seed_slot_indices=[-1] * capacity,
        )
    )

    assert slot(context, 5) == (10, 0, HEAD, 0)
    assert counters(context) == (1, 1)


def test_k17_empty_launches(run):
    context = build_context(canary_buf=bytes(range(256)), violation_ring=[POISON])
    verify = {
        "verify_slot_indices": [],
        "verify_expected_positions": [],
        "verify_prev_slot_indices": [],
    }
    no_plan = {"write_offsets": [0], "write_seed_slot_indices": []}

    for launch in (
        build_verify_launch(context, **verify, verify_num_valid=9),
        verify_one(context, slot=1, verify_num_valid=0),
        verify_one(context, slot=1, enable=0),
        write_chain(context, [], **no_plan, write_num_valid_reqs=9),
        write_chain(context, []),
        write_chain(context, [1], write_num_valid_reqs=0),
    ):
        run(launch)

    assert counters(context) == (0, 6)
    assert bytes(context.canary_buf.flatten().tolist()) == bytes(range(256))
    assert context.violation_ring.tolist() == [list(POISON)]


@pytest.mark.parametrize(
    ("before", "after", "stored"),
    [
        (2**31 - 2, -(2**31) + 1, []),
        (2**31 - 1, -(2**31) + 2, []),
        (-2, 1, [0]),
        (-3, 0, []),
        (2, 5, [2, 3]),
        (4, 7, []),
    ],
)
def test_k18_write_index_wraps_and_only_places_in_the_ring_are_stored(run, before, after, stored):
    context = build_context(violation_ring=[POISON] * 4, violation_write_index=before)
    launch = write_chain(
        context,
        [1, 2, 3],
        expected_input_tokens=[0, 0, 0],
        expected_input_positions=[0, 1, 2],
    )

    run(launch)

    assert context.violation_write_index.tolist() == [after]
    for place in range(4):
        row = context.violation_ring[place].tolist()
        if place in stored:
            assert row[:5] == [0, place - before + 1, place - before, place - before + 10, 0]
        else:
            assert row == list(POISON)


@pytest.mark.parametrize("count", [-1, -(2**31)])
def test_k19_negative_counts_are_none(run, count):
    context = build_context()

    run(verify_one(context, slot=1, verify_num_valid=count))
    run(write_chain(context, [1], write_num_valid_reqs=count))

    assert counters(context) == (0, 2)
    assert slot(context, 1) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("mode", "folded", "outside"), [(2, [0, 31], [32, 47]), (1, [0, 15], [16, 31])]
)
def test_k20_verify_folds_exactly_the_bytes_it_should(run, mode, folded, outside):
    data = bytes(5 * place % 253 for place in range(2 * 48 * 4))
    source = build_source(data, rows=4, page_size=2, num_bytes_per_token=48, read_bytes=32)
    other = build_source(data, rows=8, page_size=1, num_bytes_per_token=48)
    context = build_context(
        violation_ring=[POISON], real_kv_sources=[other, source], real_kv_hash_mode=mode
    )
    run(write_chain(context, [2, 7]))
    flat = source.tensor.view(-1)

    def rows_after_flipping(mask, place):
        flat[7 * 48 + place] ^= mask
        context.violation_write_index.zero_()
        run(verify_one(context, slot=7, position=1, previous=2))
        flat[7 * 48 + place] ^= mask
        return context.violation_ring.tolist()[: context.violation_write_index.item()]

    chain = signed(mix3(HEAD, 10, 0))
    assert rows_after_flipping(0, 0) == []
    for place in folded:
        assert rows_after_flipping(0x10, place) == [[0, 7, 1, 11, -1, chain, chain, 4]]
    for place in outside:
        assert rows_after_flipping(0x10, place) == []
