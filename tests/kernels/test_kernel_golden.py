"""The golden vectors on the kernels' source, in every geometry and order that changes its path."""

from __future__ import annotations

import pytest

from kv_canary_fuzz.kernels import emulated


@pytest.mark.parametrize(
    ("schedule_seed", "block_threads", "max_blocks"),
    [(0, 64, 3), (1, 64, 3), (2, 64, 1), (3, 32, 1), (4, 32, 3), (5, 64, 50)],
)
def test_emulated_kernels_reproduce_the_golden_vectors(
    emulated_build, bench_of, golden_failures, schedule_seed, block_threads, max_blocks
):
    kernels = bench_of(emulated_build)
    kernels.kernels.schedule_seed = schedule_seed
    kernels.kernels.block_threads = block_threads
    kernels.kernels.max_blocks = max_blocks

    assert golden_failures(kernels) == []


@pytest.mark.parametrize("block_threads", [96, 256])
def test_golden_vectors_in_larger_blocks(bench_of, golden_failures, block_threads):
    kernels = emulated.build(geometry=emulated.Geometry(block_threads, 3))
    kernels.schedule_seed = 7

    assert golden_failures(bench_of(kernels)) == []


def test_golden_vectors_on_ucontext_fibers(bench_of, golden_failures):
    kernels = emulated.build(flags=("-DKV_FIBERS_UCONTEXT",))
    kernels.schedule_seed = 3

    assert golden_failures(bench_of(kernels)) == []


@pytest.mark.gpu
def test_gpu_kernels_reproduce_the_golden_vectors(gpu_build, bench_of, golden_failures):
    assert golden_failures(bench_of(gpu_build, "cuda")) == []
