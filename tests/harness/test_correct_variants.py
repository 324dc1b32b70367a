"""No false alarms: kernels that are written otherwise and are right differ from nothing."""

from __future__ import annotations

import pytest
import torch

from kv_canary_fuzz.harness.execution.fuzzer import Fuzzer
from kv_canary_fuzz.harness.targets.target import target_of
from kv_canary_fuzz.kernels import emulated
from kv_canary_fuzz.kernels.source import Patch

CASES = 512
BATCH = 128

POSITION_FIRST_ALONE = Patch(
    "chain.cuh",
    """if (launch.enable_write_input_assert) check_input(launch, i, entry);
        if (chain.asserts_position) check_position(launch, entry, chain.previous_position);""",
    """if (chain.asserts_position) check_position(launch, entry, chain.previous_position);
        if (launch.enable_write_input_assert) check_input(launch, i, entry);""",
)
LAST_BLOCK_FIRST = Patch(
    "kv_canary.cu",
    "return warp * gridDim.x + blockIdx.x;",
    "return warp * gridDim.x + (gridDim.x - 1 - blockIdx.x);",
)
BLOCK_BY_BLOCK = Patch(
    "kv_canary.cu",
    "worker_number(warp.in_block), blockDim.x / WARP_LANES * gridDim.x,",
    "blockIdx.x * (blockDim.x / WARP_LANES) + warp.in_block, blockDim.x / WARP_LANES * gridDim.x,",
)
SMALL_GROUPS = Patch("chain_group.cuh", "GROUP_ENTRIES = 128", "GROUP_ENTRIES = 64")
EIGHTH_HASH = Patch("chain_group.cuh", "HASH_STEP = 4", "HASH_STEP = 8")
LONGER_ALONE = Patch("chain.cuh", "ALONE_ENTRIES = 16", "ALONE_ENTRIES = 80")
ALWAYS_STAGED = Patch(
    "fold.cuh",
    "const bool spread = (slots << canary.source_shift) <= warps * WARP_LANES;",
    "const bool spread = false;",
)

VARIANTS = {
    "position_checked_first": ([POSITION_FIRST_ALONE], 64, 3),
    "last_block_first": ([LAST_BLOCK_FIRST], 64, 3),
    "verified_block_by_block": ([BLOCK_BY_BLOCK], 64, 3),
    "small_groups_and_steps": ([SMALL_GROUPS, EIGHTH_HASH], 64, 3),
    "longer_requests_alone": ([LONGER_ALONE], 64, 3),
    "never_spread": ([ALWAYS_STAGED], 64, 3),
    "one_warp": ([], 32, 1),
    "five_warps_in_seven_blocks": ([], 160, 7),
    "eight_warps_in_two_blocks": ([LAST_BLOCK_FIRST, SMALL_GROUPS], 256, 2),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_a_correct_variant_stays_clean(name: str) -> None:
    torch.set_num_threads(1)
    patches, block_threads, max_blocks = VARIANTS[name]
    geometry = emulated.Geometry(block_threads, max_blocks)
    fuzzer = Fuzzer(target_of(name, emulated.build(patches=patches, geometry=geometry)))
    for first in range(0, CASES, BATCH):
        cases = fuzzer.generate(11, range(first, first + BATCH), "all")
        assert fuzzer.failing(cases) == []
