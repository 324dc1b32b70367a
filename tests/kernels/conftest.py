"""Where the kernels' tests run: the emulated build everywhere, the GPU build where there is one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from kv_canary_fuzz.kernels import emulated
from kv_canary_fuzz.reference import VerifyLaunch, WriteLaunch
from kv_canary_fuzz.reference.golden import GoldenLaunch, read_golden

Launch = WriteLaunch | VerifyLaunch

GOLDEN = Path(__file__).parents[1] / "golden" / "sglang-0.5.23.json.gz"


@dataclass
class Bench:
    """A build of the kernels and the device that its tensors belong on."""

    kernels: Any
    device: str

    def run(self, launch: Launch) -> None:
        """Run a launch to its end."""
        if isinstance(launch, WriteLaunch):
            self.kernels.launch_canary_write_kernel(**launch.arguments())
        else:
            self.kernels.launch_canary_verify_kernel(**launch.arguments())
        if self.device == "cuda":
            torch.cuda.synchronize()


@pytest.fixture(scope="session")
def _emulated_library() -> emulated.EmulatedKernels:
    return emulated.build()


@pytest.fixture
def emulated_build(
    _emulated_library: emulated.EmulatedKernels,
) -> Iterator[emulated.EmulatedKernels]:
    """The default build, put back to its default geometry and natural order after the test."""
    kernels = _emulated_library
    yield kernels
    kernels.set_schedule(0)


@pytest.fixture(scope="session")
def gpu_build() -> Any:
    """The GPU build; skips where this machine cannot run one."""
    if not torch.cuda.is_available():
        pytest.skip("torch sees no CUDA device")
    pytest.importorskip("cupy", reason="CuPy is not installed")
    from kv_canary_fuzz.kernels import gpu

    return gpu.build()


@pytest.fixture(scope="session")
def bench_of() -> Callable[..., Bench]:
    """Makes a bench of a build: ``bench_of(kernels, device="cpu")``."""
    return lambda kernels, device="cpu": Bench(kernels, device)


@pytest.fixture(params=["emulated", pytest.param("gpu", marks=pytest.mark.gpu)])
def bench(request: pytest.FixtureRequest) -> Bench:
    """Both builds in turn."""
    if request.param == "gpu":
        return Bench(request.getfixturevalue("gpu_build"), "cuda")
    return Bench(request.getfixturevalue("emulated_build"), "cpu")


@pytest.fixture(scope="session")
def golden_launches() -> list[GoldenLaunch]:
    return read_golden(GOLDEN)


@pytest.fixture(scope="session")
def golden_failures(golden_launches: list[GoldenLaunch]) -> Callable[[Bench], list[str]]:
    """Runs every golden vector on a bench and says which are not reproduced, and where."""
    from kv_canary_fuzz.reference import run_verify_batch, run_write_batch

    rows = []
    for golden in golden_launches:
        launch = golden.build()
        batch = [launch]
        made = run_write_batch(batch) if golden.kernel == "write" else run_verify_batch(batch)
        rows.append([tuple(row) for row in made.values.tolist()])

    def failures(bench: Bench) -> list[str]:
        found = []
        for golden, produced in zip(golden_launches, rows, strict=True):
            launch = golden.build(bench.device)
            bench.run(launch)
            wrong = golden.disagreements(launch.context, produced)
            if wrong:
                found.append(f"{golden.index} {golden.kernel}: {', '.join(wrong)}")
        return found

    return failures
