"""CUDA's words on the host: barriers and warp operations, orders of threads, and their misuse."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from kv_canary_fuzz.kernels.build import build_library
from kv_canary_fuzz.kernels.source import read_sources, translation_unit

BIG = 1 << 40
SPOILED = 0xA7A7A7A7A7A7A7A7
UNDEFINED = 0xBAD5EED0BAD5EED0
OUTPUTS = 1024

MAIN = '#include "launch.h"\n#include "probe.cu"\nKV_EXPORT_LAUNCH(probe)\n'


@pytest.fixture(scope="module", params=["switched", "ucontext"])
def run(request):
    """Runs case ``which`` of the probe: its outputs, or the text of its error."""
    sources = read_sources() | {
        "probe.cu": (Path(__file__).parent / "probe.cu").read_text(encoding="utf-8"),
        "main.cpp": MAIN,
    }
    flags = ["-DKV_WRITE_LAUNCH_BYTES=392", "-DKV_VERIFY_LAUNCH_BYTES=360"]
    if request.param == "ucontext":
        flags.append("-DKV_FIBERS_UCONTEXT")
    library = ctypes.CDLL(str(build_library(translation_unit(sources, "main.cpp"), flags)))
    library.map_block_stacks.restype = ctypes.c_void_p
    stacks = ctypes.c_void_p(library.map_block_stacks())

    def run(which, *, blocks=1, threads=32, seed=0):
        out = (ctypes.c_uint64 * OUTPUTS)()
        words = (ctypes.c_uint64 * 2)(ctypes.addressof(out), which)
        error = ctypes.create_string_buffer(1024)
        failed = library.launch_probe(
            *(words, stacks, blocks, threads, ctypes.c_uint64(seed)),
            *(error, ctypes.c_size_t(1024)),
        )
        return error.value.decode() if failed else list(out[: blocks * threads])

    return run


def test_shuffles(run):
    assert run(0) == [BIG + 31 - lane for lane in range(32)]
    assert run(1) == [BIG + max(lane - 3, lane % 3 if lane < 3 else 0) for lane in range(32)]
    assert run(2) == [BIG + (lane + 3 if lane < 29 else lane) for lane in range(32)]
    assert run(3) == [BIG + (lane ^ 5) for lane in range(32)]


def test_votes_matches_and_sums(run):
    lanes = range(32)
    assert run(4) == [sum(1 << lane for lane in lanes if lane % 3 == 0)] * 32
    same = {k: sum(1 << lane for lane in lanes if (BIG + lane) % 5 == k) for k in range(5)}
    assert run(5) == [same[(BIG + lane) % 5] for lane in lanes]
    assert run(6) == [496] * 32
    assert run(7) == [2] * 32


def test_part_of_a_warp_and_ended_lanes(run):
    assert run(8) == [0xAAAA] * 16 + [0] * 16
    assert run(13) == [0xFFFFFFEF if lane != 4 else 0 for lane in range(32)]
    assert run(14) == [UNDEFINED] * 16 + [0] * 16


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_barrier_makes_every_order_give_the_same(run, seed):
    expected = list(reversed(range(128))) * 2

    assert run(10, blocks=2, threads=128, seed=seed) == expected


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_named_barrier_waits_for_as_many_threads_as_it_says(run, seed):
    found = run(17, threads=128, seed=seed)

    assert found == [*range(32, 64), *[0] * 96]


def test_named_barrier_that_never_opens_is_reported(run):
    error = run(18, threads=64)

    assert error.startswith("block 0 cannot go on: thread 0 waits in a named barrier at probe.cu:")


def test_missing_barrier_shows_spoiled_shared_memory(run):
    found = run(11, threads=64)

    assert found[:32] == [SPOILED] * 32
    assert found[32:] == list(reversed(range(32)))


def test_schedule_seed_permutes_threads_and_blocks(run):
    natural = run(9, blocks=3, threads=64)
    permuted = [run(9, blocks=3, threads=64, seed=seed) for seed in range(1, 6)]

    assert natural == list(range(192))
    assert all(sorted(order) == natural for order in permuted)
    assert len({tuple(order) for order in permuted}) == 5
    assert run(9, blocks=3, threads=64, seed=2) == permuted[1]
    assert any(order[0] >= 64 for order in permuted)


def test_lanes_that_never_meet_are_reported(run):
    error = run(12, threads=64)

    assert error.startswith("block 0 cannot go on: thread 0 waits in __syncwarp at probe.cu:")
    assert "for lanes ffffffff; thread 4 waits in __syncthreads at probe.cu:" in error


def test_one_operation_at_two_places_is_reported(run):
    error = run(15)

    assert "thread 0 waits in a vote at probe.cu:" in error
    assert "thread 16 waits in a vote at probe.cu:" in error


def test_indices_and_bit_counts(run):
    assert run(16, blocks=2, threads=32) == [232] * 32 + [1232] * 32
    assert run(99) == [8 * 1000 + 4 * 100 + 3 * 10 + 2] * 32


@pytest.mark.parametrize(("blocks", "threads"), [(0, 32), (1, 0), (1, 33), (1, 1056)])
def test_impossible_geometry_is_an_error(run, blocks, threads):
    assert (
        run(0, blocks=blocks, threads=threads)
        == f"a grid of {blocks} blocks of {threads} threads cannot be run"
    )
