"""Revisions of the contract: which sources a launch takes, and the words of its refusals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from kv_canary_fuzz.reference import (
    CONTRACTS,
    DOCUMENTED,
    RELEASED,
    Contract,
    RealKvSource,
    VerifyLaunch,
    WriteLaunch,
    check_verify,
    check_write,
    is_valid_kv_source,
)
from kv_canary_fuzz.reference.batch import torch_reference
from kv_canary_fuzz.reference.building import (
    build_context,
    build_verify_launch,
    build_write_launch,
)
from kv_canary_fuzz.reference.contract import earlier
from kv_canary_fuzz.reference.scalar_model import scalar_model

PACKED = "kv-canary: real_kv_sources[1].tensor rows must be packed (stride(-1) == 1), got strides "


def layer(rows: int = 8, layers: int = 3) -> torch.Tensor:
    """One layer's rows of 32 bytes in a buffer of all layers: row step 32 * layers."""
    every = torch.arange(rows * layers * 32, dtype=torch.int64).to(torch.uint8)
    return every.view(rows, layers, 32)[:, 1]


def holed() -> torch.Tensor:
    return torch.zeros(8, 32, 2, dtype=torch.uint8)[..., 0]


def source(tensor: torch.Tensor) -> RealKvSource:
    return RealKvSource(tensor=tensor, page_size=1, num_bytes_per_token=32, read_bytes=32)


def launches(*tensors: torch.Tensor) -> tuple[WriteLaunch, VerifyLaunch]:
    context = build_context(real_kv_sources=[source(t) for t in tensors], real_kv_hash_mode=2)
    write = build_write_launch(
        context,
        write_offsets=[0, 2],
        write_seed_slot_indices=[-1],
        input_ids=[5, 6],
        positions=[0, 1],
        out_cache_loc=[1, 7],
    )
    verify = build_verify_launch(
        context,
        verify_slot_indices=[1, 7],
        verify_expected_positions=[0, 1],
        verify_prev_slot_indices=[-1, 1],
    )
    return write, verify


def refusals(contract: Contract, *tensors: torch.Tensor) -> list[str]:
    write, verify = launches(*tensors)
    messages = []
    for check, launch in ((check_write, write), (check_verify, verify)):
        try:
            check(launch, contract=contract)  # type: ignore[operator]
            messages.append("")
        except ValueError as error:
            messages.append(str(error))
    return messages


def test_the_revisions_by_name() -> None:
    assert list(CONTRACTS) == ["2026-08-28", "0.5.23"]
    assert earlier(RELEASED, DOCUMENTED) is DOCUMENTED
    assert earlier(RELEASED, RELEASED) is RELEASED


def test_strided_rows_are_legal_in_the_later_revision_alone() -> None:
    assert refusals(RELEASED, layer(), layer()) == ["", ""]
    wanted = "kv-canary: real_kv_sources[0].tensor must be contiguous"
    assert refusals(DOCUMENTED, layer(), layer()) == [wanted, wanted]


def test_bytes_within_a_row_must_be_packed() -> None:
    plain = torch.zeros(8, 32, dtype=torch.uint8)
    assert refusals(RELEASED, plain, holed()) == [f"{PACKED}(64, 2)"] * 2
    wanted = "kv-canary: real_kv_sources[1].tensor must be contiguous"
    assert refusals(DOCUMENTED, plain, holed()) == [wanted] * 2


def test_sources_are_judged_one_by_one_in_the_later_revision() -> None:
    cube = torch.zeros(8, 2, 16, dtype=torch.uint8)
    rank = "kv-canary: real_kv_sources[0].tensor (viewed as uint8) must be 2-D, got 3-D"
    assert refusals(RELEASED, cube, holed()) == [rank] * 2
    wanted = "kv-canary: real_kv_sources[1].tensor must be contiguous"
    assert refusals(DOCUMENTED, cube, holed()) == [wanted] * 2


@pytest.mark.parametrize("shape", [(), (256,), (8, 2, 16)])
def test_another_rank(shape: tuple[int, ...]) -> None:
    wanted = f"real_kv_sources[0].tensor (viewed as uint8) must be 2-D, got {len(shape)}-D"
    for contract in CONTRACTS.values():
        tensor = torch.zeros(shape, dtype=torch.uint8)
        assert refusals(contract, tensor) == [f"kv-canary: {wanted}"] * 2


def test_a_predicate_for_callers_that_check_first() -> None:
    tensors = (layer(), holed(), torch.zeros(8, 32, dtype=torch.uint8))
    assert [is_valid_kv_source(source(t)) for t in tensors] == [False, False, True]
    assert [is_valid_kv_source(source(t), RELEASED) for t in tensors] == [True, False, True]


@pytest.mark.parametrize("implementation", [torch_reference, scalar_model])
def test_strided_rows_are_hashed_like_a_packed_copy(implementation: Any) -> None:
    offered = implementation(RELEASED)
    stamps = []
    for tensor in (layer(), layer().contiguous()):
        write, verify = launches(tensor)
        offered.launch_canary_write_kernel(**write.arguments())
        offered.launch_canary_verify_kernel(**verify.arguments())
        assert int(write.context.violation_write_index) == 0
        stamps.append(write.context.canary_buf.clone())
    assert torch.equal(*stamps)
    hashes = stamps[0].view(torch.int64)[[1, 7], 3].tolist()
    assert 0 not in hashes
    assert hashes[0] != hashes[1]


def test_a_refused_launch_moves_nothing() -> None:
    write, _ = launches(layer())
    context = replace(write.context)
    with pytest.raises(ValueError, match="must be contiguous"):
        torch_reference(DOCUMENTED).launch_canary_write_kernel(**write.arguments())
    assert int(context.kernel_run_counter) == int(context.slot_run_counter) == 0
