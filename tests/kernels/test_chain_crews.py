"""Chains of every length, in blocks of every size: who walks, who keeps, who does both."""

from __future__ import annotations

import random
from itertools import accumulate, pairwise

import pytest
import torch

from kv_canary_fuzz.kernels import emulated
from kv_canary_fuzz.reference import scalar_model
from kv_canary_fuzz.reference.building import build_context, build_source, build_write_launch

LENGTHS = (1, 300, 0, 128, 2, 129, 17, 257, 16, 1, 4)
SKIPPED = -1
ALL = 2


def long_write(seed, *, sources=1, device="cpu"):
    """Requests of LENGTHS; a fifth of the entries is skipped, and some go to one slot."""
    choose = random.Random(seed)
    offsets = [0, *accumulate(LENGTHS)]
    entries, slots = offsets[-1], []
    for begin, end in pairwise(offsets):
        own = list(range(begin + 1, end + 1))
        slots += [
            choose.choice((SKIPPED, choose.choice(own[:3]), *own[i : i + 3]))
            for i in range(len(own))
        ]
    rows = entries + 1
    context = build_context(
        num_slots=rows,
        violation_ring=[[0] * 8] * (2 * rows),
        real_kv_sources=[
            build_source(
                choose.randbytes(16 * rows),
                rows=rows,
                page_size=1,
                num_bytes_per_token=16,
                device=device,
            )
            for _ in range(sources)
        ],
        real_kv_hash_mode=ALL,
        enable_chain_position_assert=1,
        device=device,
    )
    numbers = [choose.getrandbits(63) for _ in range(entries)]
    return build_write_launch(
        context,
        write_offsets=offsets,
        write_seed_slot_indices=[
            choose.choice((-1, begin + 1)) if length else -1
            for begin, length in zip(offsets, LENGTHS, strict=False)
        ],
        input_ids=numbers,
        positions=[
            place if choose.random() < 0.9 else number for place, number in enumerate(numbers)
        ],
        out_cache_loc=slots,
        expected_input_tokens=[n if choose.random() < 0.9 else -1 for n in numbers],
        expected_input_positions=list(range(entries)),
    )


def state(launch):
    """Everything a launch leaves behind, its rows as a multiset."""
    context = launch.context
    return (
        bytes(context.canary_buf.cpu().flatten().tolist()),
        sorted(map(tuple, context.violation_ring.cpu().tolist())),
        context.violation_write_index.item(),
        context.slot_run_counter.item(),
    )


@pytest.fixture(scope="module")
def eight_warps():
    return emulated.build(geometry=emulated.Geometry(256, 3))


@pytest.mark.parametrize("sources", [0, 1])
@pytest.mark.parametrize("warps", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("max_blocks", [1, 16])
def test_chains_in_blocks_of_every_size(eight_warps, sources, warps, max_blocks):
    expected, launch = long_write(7, sources=sources), long_write(7, sources=sources)
    eight_warps.block_threads, eight_warps.max_blocks = 32 * warps, max_blocks
    eight_warps.schedule_seed = warps * max_blocks % 4

    scalar_model.launch_canary_write_kernel(**expected.arguments())
    eight_warps.launch_canary_write_kernel(**launch.arguments())

    assert state(launch) == state(expected)


@pytest.mark.gpu
@pytest.mark.parametrize("sources", [0, 1])
@pytest.mark.parametrize("seed", range(4))
def test_chains_on_a_gpu(gpu_build, sources, seed):
    expected = long_write(seed, sources=sources)
    launch = long_write(seed, sources=sources, device="cuda")

    scalar_model.launch_canary_write_kernel(**expected.arguments())
    gpu_build.launch_canary_write_kernel(**launch.arguments())
    torch.cuda.synchronize()

    assert state(launch) == state(expected)
