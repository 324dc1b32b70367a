"""Faults that people met in kernels like these, each as its smallest input with the right value."""

from __future__ import annotations

import struct

import pytest
import torch

from kv_canary_fuzz.reference import RealKvSource
from kv_canary_fuzz.reference.building import (
    build_context,
    build_source,
    build_verify_launch,
    build_write_launch,
)
from kv_canary_fuzz.reference.scalar_hashing import fold_sources, mix3, splitmix64

HEAD = splitmix64(0xC0FFEE1234567890)
ALL, PARTIAL = 2, 1
POISON = -7


def signed(value):
    return value - 2**64 if value >= 2**63 else value


def slot(context, index):
    """The token, position, prev_hash and real-KV hash stored in a slot, the hashes unsigned."""
    return struct.unpack("<qqQQ", bytes(context.canary_buf[index, :32].tolist()))


def stamps(*slots):
    """The bytes of a canary buffer of stride 32 that holds ``slots``."""
    return b"".join(struct.pack("<qqQQ", *fields) for fields in slots)


def counts(context):
    return context.slot_run_counter.item(), context.kernel_run_counter.item()


def chain(slots, tokens=None, positions=None):
    """The plan and inputs of one request over ``slots``."""
    return {
        "write_offsets": [0, len(slots)],
        "write_seed_slot_indices": [-1],
        "input_ids": tokens or [10 + k for k in range(len(slots))],
        "positions": positions or list(range(len(slots))),
        "out_cache_loc": slots,
    }


def verify_of(slots, **changes):
    return {
        "verify_slot_indices": slots,
        "verify_expected_positions": [0] * len(slots),
        "verify_prev_slot_indices": [-1] * len(slots),
        **changes,
    }


def pattern(size):
    return bytes(7 * place % 251 for place in range(size))


@pytest.mark.parametrize("slots", [[1], [15], [16], [1, 15, 16, 33], list(range(1, 48))])
@pytest.mark.parametrize("padding", [0, 16])
def test_k1_k14_rows_are_addressed_by_their_step(bench, padding, slots):
    page_size, width = 16, 48
    step = page_size * width + padding
    data = pattern(3 * step)
    source = build_source(
        data,
        rows=3,
        page_size=page_size,
        num_bytes_per_token=width,
        read_bytes=32,
        device=bench.device,
    )
    context = build_context(
        num_slots=48, real_kv_sources=[source], real_kv_hash_mode=ALL, device=bench.device
    )

    bench.run(build_write_launch(context, **chain(slots)))

    for index in slots:
        start = index // page_size * step + index % page_size * width
        assert slot(context, index)[3] == fold_sources([data[start : start + 32]])


@pytest.mark.parametrize("mode", [PARTIAL, ALL])
@pytest.mark.parametrize("entries", [1, 40, 300])
def test_k20_verify_folds_what_write_folded_and_only_that(bench, mode, entries):
    widths, reads = (16, 1152, 656, 144), (16, 1152, 640, 128)
    slots = list(range(1, entries + 1))
    sources = [
        build_source(
            pattern((entries + 1) * width),
            rows=entries + 1,
            page_size=1,
            num_bytes_per_token=width,
            read_bytes=read,
            device=bench.device,
        )
        for width, read in zip(widths, reads, strict=True)
    ]
    context = build_context(
        num_slots=entries + 1,
        violation_ring=[[0] * 8] * 4,
        real_kv_sources=sources,
        real_kv_hash_mode=mode,
        device=bench.device,
    )
    bench.run(build_write_launch(context, **chain(slots)))
    verify = build_verify_launch(
        context,
        **verify_of(
            slots,
            verify_expected_positions=list(range(entries)),
            verify_prev_slot_indices=[-1, *slots[:-1]],
        ),
    )
    inside, outside = (15, 16) if mode == PARTIAL else (639, 640)

    bench.run(verify)
    assert context.violation_write_index.item() == 0
    sources[2].tensor[entries, outside] ^= 4
    bench.run(verify)
    assert context.violation_write_index.item() == 0
    sources[2].tensor[entries, inside] ^= 4
    bench.run(verify)
    assert context.violation_write_index.item() == 1
    token, position, stored, _ = slot(context, entries)
    expected = [0, entries, position, token, -1, signed(stored), signed(stored), 4]
    assert context.violation_ring[0].tolist() == expected


def test_k2_k3_narrow_row_is_refused_before_anything_moves(bench):
    source = build_source(
        bytes(32), rows=1, page_size=1, num_bytes_per_token=16, device=bench.device
    )
    context = build_context(
        num_slots=4, real_kv_sources=[source], real_kv_hash_mode=ALL, device=bench.device
    )

    with pytest.raises(ValueError, match=r"^kv-canary: real_kv_sources\[0\]"):
        bench.run(build_write_launch(context, **chain([1, 2, 3])))

    assert counts(context) == (0, 0)
    assert context.canary_buf.sum().item() == 0


@pytest.mark.parametrize("kernel", ["write", "verify"])
def test_k4_fifth_source_is_refused(bench, kernel):
    source = build_source(
        bytes(64), rows=4, page_size=1, num_bytes_per_token=16, device=bench.device
    )
    context = build_context(num_slots=4, real_kv_sources=[source] * 5, device=bench.device)
    launch = (
        build_write_launch(context, **chain([1]))
        if kernel == "write"
        else build_verify_launch(context, **verify_of([1]))
    )

    with pytest.raises(ValueError, match=r"at most 4 RealKvSource entries supported .*, got 5"):
        bench.run(launch)

    assert counts(context) == (0, 0)


@pytest.mark.parametrize("sources", [0, 1, 3])
@pytest.mark.parametrize("entries", [1, 31, 32, 33, 63, 64, 65, 191, 192, 193, 384, 385, 512, 513])
def test_k5_every_entry_counts_once(bench, sources, entries):
    kv = build_source(bytes(64), rows=4, page_size=1, num_bytes_per_token=16, device=bench.device)
    wide = build_source(
        bytes(128), rows=4, page_size=1, num_bytes_per_token=32, device=bench.device
    )
    context = build_context(
        num_slots=4,
        real_kv_sources=[wide, kv, kv][:sources],
        real_kv_hash_mode=ALL,
        device=bench.device,
    )
    plan = verify_of([0, 1, 2, 3, -1] * 110, verify_num_valid=entries)

    bench.run(build_verify_launch(context, **plan))

    assert counts(context) == (entries, 1)
    assert context.violation_write_index.item() == sum(k % 5 in (1, 2, 3) for k in range(entries))


@pytest.mark.parametrize("requests", [1, 2, 3, 6, 7, 31, 32, 33, 64, 65, 96, 97, 200])
@pytest.mark.parametrize("length", [1, 2, 17, 33])
def test_k5_every_request_is_written_once(bench, requests, length):
    total = requests * length
    source = build_source(
        pattern((total + 1) * 16),
        rows=total + 1,
        page_size=1,
        num_bytes_per_token=16,
        device=bench.device,
    )
    context = build_context(
        num_slots=total + 1, real_kv_sources=[source], real_kv_hash_mode=ALL, device=bench.device
    )
    launch = build_write_launch(
        context,
        write_offsets=[k * length for k in range(requests + 1)],
        write_seed_slot_indices=[-1] * requests,
        input_ids=list(range(total)),
        positions=list(range(total)),
        out_cache_loc=list(range(1, total + 1)),
    )

    bench.run(launch)

    assert counts(context) == (total, 1)
    data = pattern((total + 1) * 16)
    running = HEAD
    for place in range(total):
        running = HEAD if place % length == 0 else running
        kv = fold_sources([data[16 * (place + 1) : 16 * (place + 2)]])
        assert slot(context, place + 1) == (place, place, running, kv)
        running = mix3(running, place, place)


def test_k6_active_entries_stop_at_the_capacity(bench):
    context = build_context(num_slots=8, device=bench.device)

    bench.run(build_verify_launch(context, **verify_of([0] * 5, verify_num_valid=6)))
    bench.run(build_write_launch(context, **chain([3, 4]), write_num_valid_reqs=6))

    assert counts(context) == (5 + 2, 2)


def test_k7_skipped_entries_leave_no_trace(bench):
    context = build_context(num_slots=8, device=bench.device)
    values = chain([-1, 3, -1, 4, 8], tokens=[1, 2, 3, 4, 5], positions=[5, 6, 7, 8, 9])

    bench.run(build_write_launch(context, **values))

    assert counts(context) == (2, 1)
    assert slot(context, 3) == (2, 6, HEAD, 0)
    assert slot(context, 4) == (4, 8, mix3(HEAD, 2, 6), 0)
    assert int(context.canary_buf.count_nonzero(dim=1).count_nonzero()) == 2


def test_k8_predecessor_zero_is_not_checked(bench):
    context = build_context(
        num_slots=6,
        canary_buf=stamps((9, 9, 9, 9), *[(0, 0, 0, 0)] * 4, (7, 3, 123, 0)),
        violation_ring=[[0] * 8],
        kernel_kind=2,
        device=bench.device,
    )

    bench.run(build_verify_launch(context, **verify_of([5], verify_prev_slot_indices=[0])))

    assert context.violation_ring.tolist() == [[2, 5, 3, 7, -1, 123, 123, 2]]


@pytest.mark.parametrize("token", [-1, 2**31, 2**63 - 1, -(2**63)])
def test_k9_tokens_and_positions_keep_64_bits(bench, token):
    context = build_context(num_slots=3, device=bench.device)

    bench.run(build_write_launch(context, **chain([1, 2], tokens=[token, 5], positions=[token, 6])))

    assert slot(context, 1) == (token, token, HEAD, 0)
    assert slot(context, 2) == (5, 6, mix3(HEAD, token, token), 0)


def test_k10_position_violation_on_a_sliding_window_tail(bench):
    context = build_context(
        num_slots=4,
        canary_buf=stamps((0,) * 4, (0,) * 4, (55, 8447, 77, 0), (0,) * 4),
        violation_ring=[[POISON] * 8] * 2,
        kernel_kind=8,
        enable_chain_position_assert=1,
        device=bench.device,
    )
    values = chain([3], tokens=[6], positions=[512]) | {"write_seed_slot_indices": [2]}

    bench.run(build_write_launch(context, **values))

    running = mix3(77, 55, 8447)
    assert context.violation_ring.tolist() == [
        [8, 3, 512, 6, 6, signed(running), 8448, 16],
        [POISON] * 8,
    ]


def test_k11_source_past_2_gib(bench):
    rows, width = 17, 2**27
    tensor = torch.empty((rows, width), dtype=torch.uint8, device=bench.device)
    data = pattern(1024)
    tensor[16, width - 1024 :] = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    source = RealKvSource(
        tensor=tensor, page_size=width // 1024, num_bytes_per_token=1024, read_bytes=1024
    )
    index = rows * (width // 1024) - 1
    context = build_context(
        num_slots=index + 1, real_kv_sources=[source], real_kv_hash_mode=ALL, device=bench.device
    )

    bench.run(build_write_launch(context, **chain([index])))

    assert slot(context, index) == (10, 0, HEAD, fold_sources([data]))


def test_k11_canary_buffer_past_2_gib(bench):
    slots = 67_108_865
    context = build_context(num_slots=1, device=bench.device)
    large = torch.empty((slots, 32), dtype=torch.uint8, device=bench.device)
    context = type(context)(**{**vars(context), "canary_buf": large})
    last = slots - 1

    bench.run(build_write_launch(context, **chain([last, last - 1])))
    bench.run(
        build_verify_launch(
            context,
            **verify_of([last, last - 1], verify_expected_positions=[0, 1]),
        )
    )

    assert slot(context, last) == (10, 0, HEAD, 0)
    assert slot(context, last - 1) == (11, 1, mix3(HEAD, 10, 0), 0)
    assert context.violation_write_index.item() == 1


def test_k12_rows_further_apart_than_2_gib(bench):
    step = 2**31 + 16
    tensor = torch.empty((2, step), dtype=torch.uint8, device=bench.device)
    data = pattern(16)
    tensor[1, :16] = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    source = RealKvSource(tensor=tensor, page_size=1, num_bytes_per_token=16, read_bytes=16)
    context = build_context(
        num_slots=2, real_kv_sources=[source], real_kv_hash_mode=ALL, device=bench.device
    )

    bench.run(build_write_launch(context, **chain([1])))

    assert slot(context, 1)[3] == fold_sources([data])


def test_k13_misaligned_source_is_refused(bench):
    tensor = torch.zeros(80, dtype=torch.uint8, device=bench.device)[8:72].view(4, 16)
    source = RealKvSource(tensor=tensor, page_size=1, num_bytes_per_token=16, read_bytes=16)
    context = build_context(
        num_slots=4, real_kv_sources=[source], real_kv_hash_mode=ALL, device=bench.device
    )

    with pytest.raises(ValueError, match=r"^kv-canary: real_kv_sources\[0\]\.tensor"):
        bench.run(build_write_launch(context, **chain([1])))

    assert counts(context) == (0, 0)


def test_k15_padding_is_neither_an_index_nor_a_token(bench):
    context = build_context(
        num_slots=2,
        canary_buf=stamps((3, 4, 5, 6), (3, 0, HEAD, 0)),
        violation_ring=[[0] * 8],
        device=bench.device,
    )
    plan = verify_of([-1, 1], verify_expected_tokens=[-1, -1])

    bench.run(build_verify_launch(context, **plan))

    assert counts(context) == (2, 1)
    assert context.violation_write_index.item() == 0


@pytest.mark.parametrize("capacity", [65535, 65536, 70000])
@pytest.mark.parametrize("mode", [0, ALL])
def test_k16_last_of_many_requests_is_written(bench, capacity, mode):
    source = build_source(
        pattern(64), rows=4, page_size=1, num_bytes_per_token=16, device=bench.device
    )
    context = build_context(
        num_slots=4, real_kv_sources=[source], real_kv_hash_mode=mode, device=bench.device
    )
    launch = build_write_launch(
        context,
        write_offsets=[0] * capacity + [1],
        write_seed_slot_indices=[-1] * capacity,
        input_ids=[8],
        positions=[9],
        out_cache_loc=[3],
    )

    bench.run(launch)

    kv = fold_sources([pattern(64)[48:]]) if mode else 0
    assert slot(context, 3) == (8, 9, HEAD, kv)
    assert counts(context) == (1, 1)


def test_k17_empty_launches_count_themselves_only(bench):
    context = build_context(num_slots=2, device=bench.device)
    before = context.canary_buf.clone()
    empty = {"input_ids": [], "positions": [], "out_cache_loc": []}

    bench.run(build_write_launch(context, write_offsets=[0], write_seed_slot_indices=[], **empty))
    bench.run(
        build_write_launch(context, write_offsets=[0, 0], write_seed_slot_indices=[1], **empty)
    )
    bench.run(build_write_launch(context, **chain([1]), write_num_valid_reqs=0))
    bench.run(build_verify_launch(context, **verify_of([])))
    bench.run(build_verify_launch(context, **verify_of([1], verify_num_valid=0)))
    bench.run(build_verify_launch(context, **verify_of([1], enable=0)))

    assert counts(context) == (0, 6)
    assert torch.equal(context.canary_buf, before)


@pytest.mark.parametrize(
    ("start", "stored", "end"),
    [(0, 3, 3), (2, 2, 5), (4, 0, 7), (2**31 - 2, 0, -(2**31) + 1), (-2, 1, 1), (-3, 0, 0)],
)
def test_k18_ring_index_wraps_without_a_stray_store(bench, start, stored, end):
    context = build_context(
        num_slots=4,
        canary_buf=stamps(*[(1, 1, 1, 1)] * 4),
        violation_ring=[[POISON] * 8] * 4,
        violation_write_index=start,
        device=bench.device,
    )

    bench.run(build_verify_launch(context, **verify_of([1, 2, 3])))

    rows = context.violation_ring.tolist()
    assert context.violation_write_index.item() == end
    assert sum(row != [POISON] * 8 for row in rows) == stored


@pytest.mark.parametrize("count", [-1, -(2**31)])
def test_k19_negative_counts_are_empty(bench, count):
    context = build_context(num_slots=4, device=bench.device)

    bench.run(build_verify_launch(context, **verify_of([1, 2], verify_num_valid=count)))
    bench.run(build_write_launch(context, **chain([1, 2]), write_num_valid_reqs=count))

    assert counts(context) == (0, 2)
    assert context.canary_buf.sum().item() == 0


def test_last_duplicate_stays_and_its_own_request_may_overwrite_the_seed(bench):
    context = build_context(
        num_slots=4, canary_buf=stamps(*[(1, 2, 3, 0)] * 4), device=bench.device
    )
    slots = [2, 1] * 40
    values = chain(slots) | {"write_seed_slot_indices": [2]}

    bench.run(build_write_launch(context, **values))

    running = mix3(3, 1, 2)
    for place in range(78):
        running = mix3(running, 10 + place, place)
    assert slot(context, 2) == (88, 78, running, 0)
    assert slot(context, 1) == (89, 79, mix3(running, 88, 78), 0)
    assert slot(context, 3) == (1, 2, 3, 0)


@pytest.mark.parametrize("stride", [32, 40, 48, 104, 128])
def test_bytes_past_a_slot_are_left_alone(bench, stride):
    context = build_context(
        num_slots=70,
        slot_stride_bytes=stride,
        canary_buf=b"\xa5" * 70 * stride,
        device=bench.device,
    )

    bench.run(build_write_launch(context, **chain(list(range(70)))))

    assert slot(context, 69)[:2] == (79, 69)
    assert bool((context.canary_buf[:, 32:] == 0xA5).all())


def test_a_build_with_more_sources_follows_its_own_bound():
    from kv_canary_fuzz.kernels import emulated

    kernels = emulated.build(max_sources=8)
    data = [bytes([k]) * 96 for k in range(9)]
    sources = [build_source(d, rows=3, page_size=1, num_bytes_per_token=32) for d in data]
    eight = build_context(num_slots=3, real_kv_sources=sources[:8], real_kv_hash_mode=ALL)
    nine = build_context(num_slots=3, real_kv_sources=sources, real_kv_hash_mode=ALL)

    kernels.launch_canary_write_kernel(**build_write_launch(eight, **chain([1, 2])).arguments())

    assert slot(eight, 2)[3] == fold_sources([d[:32] for d in data[:8]])
    with pytest.raises(ValueError, match=r"at most 8 RealKvSource entries supported .*, got 9"):
        kernels.launch_canary_write_kernel(**build_write_launch(nine, **chain([1])).arguments())


def test_offsets_are_clamped_and_requests_judged_one_by_one(bench):
    context = build_context(num_slots=8, device=bench.device)
    launch = build_write_launch(
        context,
        write_offsets=[-5, 2, 2, 9, 3, 0],
        write_seed_slot_indices=[-1, 0, 8, 2**62, -9],
        input_ids=[1, 2, 3, 4],
        positions=[5, 6, 7, 8],
        out_cache_loc=[4, 5, 6, 7],
    )

    bench.run(launch)

    assert counts(context) == (4, 1)
    assert slot(context, 4) == (1, 5, HEAD, 0)
    assert slot(context, 5) == (2, 6, mix3(HEAD, 1, 5), 0)
    assert slot(context, 6) == (3, 7, HEAD, 0)
    assert slot(context, 7) == (4, 8, mix3(HEAD, 3, 7), 0)


def test_wild_slots_and_predecessors_on_verify(bench):
    context = build_context(
        num_slots=4,
        canary_buf=stamps(*[(1, 0, 9, 0)] * 4),
        violation_ring=[[POISON] * 8] * 4,
        device=bench.device,
    )
    plan = verify_of(
        [-1, 4, 2**62, -(2**63), 2, 3], verify_prev_slot_indices=[1, 1, 1, 1, 4, -(2**63)]
    )

    bench.run(build_verify_launch(context, **plan))

    assert counts(context) == (6, 1)
    assert context.violation_write_index.item() == 1
    assert context.violation_ring[0].tolist() == [0, 3, 0, 1, -1, 9, signed(HEAD), 1]


def test_positions_and_counters_wrap(bench):
    context = build_context(
        num_slots=4,
        canary_buf=stamps(*[(1, 2**63 - 1, 9, 0)] * 4),
        violation_ring=[[POISON] * 8] * 2,
        slot_run_counter=2**63 - 1,
        kernel_run_counter=2**63 - 1,
        enable_chain_position_assert=-3,
        device=bench.device,
    )
    values = chain([2, 3], positions=[-(2**63), 5]) | {"write_seed_slot_indices": [1]}

    bench.run(build_write_launch(context, **values))

    running = mix3(mix3(9, 1, 2**63 - 1), 10, -(2**63))
    assert counts(context) == (-(2**63) + 1, -(2**63))
    assert context.violation_write_index.item() == 1
    assert context.violation_ring[0].tolist() == [
        0, 3, 5, 11, 11, signed(running), -(2**63) + 1, 16,
    ]  # fmt: skip
