"""Sources of every dtype and origin, and how their bytes are found."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
import torch

from kv_canary_fuzz.reference import RealKvSource
from kv_canary_fuzz.reference.building import build_context, build_source, build_write_launch
from kv_canary_fuzz.reference.scalar_hashing import fold_sources


def stored_real_kv_hash(run, sources, *, slot, num_slots, mode=2):
    context = build_context(num_slots=num_slots, real_kv_sources=sources, real_kv_hash_mode=mode)
    launch = build_write_launch(
        context,
        write_offsets=[0, 1],
        write_seed_slot_indices=[-1],
        input_ids=[1],
        positions=[0],
        out_cache_loc=[slot],
    )
    run(launch)
    (value,) = struct.unpack("<Q", bytes(context.canary_buf[slot, 24:32].tolist()))
    return value


def as_bytes(tensor):
    return bytes(tensor.contiguous().view(-1).view(torch.uint8).tolist())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float8_e4m3fn, torch.bool])
def test_any_dtype_is_read_as_bytes(run, dtype):
    width = 64 // dtype.itemsize
    tensor = (torch.arange(4 * width) % 7).view(4, width).to(dtype)
    source = RealKvSource(tensor=tensor, page_size=2, num_bytes_per_token=32, read_bytes=32)

    found = stored_real_kv_hash(run, [source], slot=5, num_slots=8)

    assert found == fold_sources([as_bytes(tensor[2])[32:]])


def test_sources_are_folded_in_order_each_with_its_own_geometry(run):
    long = build_source(
        bytes(k % 256 for k in range(8 * 656)), rows=8, page_size=1, num_bytes_per_token=656
    )
    short = build_source(bytes(range(128)), rows=2, page_size=4, num_bytes_per_token=16)
    middle = build_source(
        bytes(range(192)), rows=2, page_size=4, num_bytes_per_token=16, read_bytes=16
    )
    tokens = [
        as_bytes(long.tensor[6]),
        as_bytes(short.tensor[1, 32:48]),
        as_bytes(middle.tensor[1, 32:48]),
    ]

    for sources, datas in [
        ([long, short, middle], tokens),
        ([middle, short, long], tokens[::-1]),
        ([short], tokens[1:2]),
    ]:
        found = stored_real_kv_hash(run, sources, slot=6, num_slots=8)
        assert found == fold_sources(datas)


@pytest.mark.parametrize(("mode", "length"), [(1, 16), (2, 48)])
def test_mode_says_how_much_of_a_token_is_folded(run, mode, length):
    source = build_source(
        bytes(range(256)), rows=4, page_size=1, num_bytes_per_token=64, read_bytes=48
    )

    found = stored_real_kv_hash(run, [source], slot=3, num_slots=4, mode=mode)

    assert found == fold_sources([bytes(range(192, 192 + length))])


def test_no_sources_and_mode_none_hash_to_zero(run):
    source = build_source(bytes(range(64)), rows=4, page_size=1, num_bytes_per_token=16)

    assert stored_real_kv_hash(run, [], slot=3, num_slots=4, mode=2) == 0
    assert stored_real_kv_hash(run, [source], slot=3, num_slots=4, mode=0) == 0


def test_from_paged_is_a_view(run):
    cache = torch.arange(3 * 4 * 2 * 8, dtype=torch.float32).view(3, 4, 2, 8)

    source = RealKvSource.from_paged(cache, read_bytes=48)

    assert (source.page_size, source.num_bytes_per_token, source.read_bytes) == (4, 64, 48)
    assert source.tensor.shape == (3, 256)
    assert source.tensor.data_ptr() == cache.data_ptr()
    found = stored_real_kv_hash(run, [source], slot=10, num_slots=12)
    assert found == fold_sources([as_bytes(cache[2, 2])[:48]])


def test_from_paged_of_a_cache_that_learns():
    cache = torch.zeros(2, 1, 16, requires_grad=True)

    assert RealKvSource.from_paged(cache, read_bytes=16).tensor.data_ptr() == cache.data_ptr()


@pytest.mark.parametrize(
    "cache",
    [
        torch.zeros(16),
        torch.zeros(2, 16, 4).transpose(1, 2),
        torch.zeros(2, 8, 16)[:, :4],
        torch.zeros(2, 8, 16, dtype=torch.complex64).conj(),
    ],
)
def test_from_paged_never_copies(cache):
    with pytest.raises(ValueError, match=r"^kv-canary: a paged cache must be "):
        RealKvSource.from_paged(cache, read_bytes=16)


def test_from_paged_of_pages_without_tokens():
    with pytest.raises(ValueError, match=r"^kv-canary: RealKvSource.page_size must be at least 1"):
        RealKvSource.from_paged(torch.zeros(2, 0, 16), read_bytes=16)


@pytest.mark.parametrize("past", [1, 2, 4, 7])
def test_borrowed_memory_may_start_anywhere(run, past):
    """Tensors that are aligned, in a storage that is not."""
    owner = torch.arange(512, dtype=torch.uint8)
    start = -owner.data_ptr() % 16 + past
    memory = torch.frombuffer(memoryview(owner.numpy())[start:], dtype=torch.uint8)
    source_at, slots_at = 16 - past, 16 - past + 64
    source = RealKvSource(
        tensor=memory[source_at : source_at + 64].view(4, 16),
        page_size=1,
        num_bytes_per_token=16,
        read_bytes=16,
    )
    token = as_bytes(source.tensor[2])
    context = replace(
        build_context(real_kv_sources=[source], real_kv_hash_mode=2),
        canary_buf=memory[slots_at : slots_at + 128].view(4, 32),
    )
    before = owner.clone()

    run(
        build_write_launch(
            context,
            write_offsets=[0, 1],
            write_seed_slot_indices=[-1],
            input_ids=[1],
            positions=[0],
            out_cache_loc=[2],
        )
    )

    stamp = bytes(context.canary_buf[2].tolist())
    assert struct.unpack("<qq8xQ", stamp) == (1, 0, fold_sources([token]))
    changed = slice(start + slots_at + 64, start + slots_at + 96)
    before[changed] = owner[changed]
    assert torch.equal(before, owner)
