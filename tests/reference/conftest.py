"""The two models of the contract, so that a test of one is a test of both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch

from kv_canary_fuzz.reference import (
    VerifyLaunch,
    WriteLaunch,
    launch_canary_verify_kernel_torch_reference,
    launch_canary_write_kernel_torch_reference,
    scalar_model,
)
from kv_canary_fuzz.reference.golden import GoldenLaunch, read_golden
from kv_canary_fuzz.reference.relocation import map_tensors

Launch = WriteLaunch | VerifyLaunch
Run = Callable[[Launch], None]

GOLDEN = Path(__file__).parents[1] / "golden" / "sglang-0.5.23.json.gz"


def run_torch(launch: Launch) -> None:
    if isinstance(launch, WriteLaunch):
        launch_canary_write_kernel_torch_reference(**launch.arguments())
    else:
        launch_canary_verify_kernel_torch_reference(**launch.arguments())


def run_scalar(launch: Launch) -> None:
    if isinstance(launch, WriteLaunch):
        scalar_model.launch_canary_write_kernel(**launch.arguments())
    else:
        scalar_model.launch_canary_verify_kernel(**launch.arguments())


@pytest.fixture(params=[run_torch, run_scalar], ids=["torch", "scalar"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a launch by the torch reference or by the scalar model."""
    chosen: Run = request.param
    return chosen


@pytest.fixture(scope="session")
def golden_launches() -> list[GoldenLaunch]:
    return read_golden(GOLDEN)


@pytest.fixture(scope="session")
def pack() -> Callable[[Sequence[Launch]], list[Launch]]:
    """Moves launches into one storage, their tensors at multiples of 64 bytes."""
    return _pack


def _pack(launches: Sequence[Launch]) -> list[Launch]:
    sizes: list[int] = []

    def measure(tensor: torch.Tensor) -> torch.Tensor:
        sizes.append(tensor.nbytes + 128)
        return tensor

    for launch in launches:
        map_tensors(launch, measure)
    arena = torch.full((sum(sizes) + 64,), 0xA5, dtype=torch.uint8)
    taken = -arena.data_ptr() % 64

    def place(tensor: torch.Tensor) -> torch.Tensor:
        nonlocal taken
        start = taken
        taken += -(-tensor.nbytes // 64) * 64 + 64
        moved = arena[start : start + tensor.nbytes].view(tensor.dtype).view(tensor.shape)
        return moved.copy_(tensor)

    return [map_tensors(launch, place) for launch in launches]
