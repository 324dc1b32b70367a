"""Building the kernels: the cache, many builders at once, and everything that can be missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from kv_canary_fuzz.kernels import abi, emulated, gpu
from kv_canary_fuzz.kernels.build import build_library, cache_folder
from kv_canary_fuzz.kernels.errors import (
    CompileError,
    CompilerMissing,
    EmulationError,
    GpuUnavailable,
    PatchError,
)
from kv_canary_fuzz.kernels.planted import build_planted, planted_bugs
from kv_canary_fuzz.kernels.source import (
    KERNEL_ROOT,
    Patch,
    apply_patches,
    read_sources,
    translation_unit,
)
from kv_canary_fuzz.reference.building import build_context, build_write_launch

TINY = 'extern "C" int answer() { return 42; }\n'

BUILD_AND_WRITE = """
from kv_canary_fuzz.kernels import emulated
from kv_canary_fuzz.reference.building import build_context, build_write_launch
context = build_context(num_slots=2)
launch = build_write_launch(context, write_offsets=[0, 1], write_seed_slot_indices=[-1],
                            input_ids=[5], positions=[6], out_cache_loc=[1])
kernels = emulated.build()
kernels.launch_canary_write_kernel(**launch.arguments())
print(context.canary_buf[1, ::8].tolist()[:2])
"""


def python(code, **environment):
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def one_write(kernels):
    context = build_context(num_slots=2)
    launch = build_write_launch(
        context,
        write_offsets=[0, 2],
        write_seed_slot_indices=[-1],
        input_ids=[5, 6],
        positions=[6, 7],
        out_cache_loc=[1, 0],
    )
    kernels.launch_canary_write_kernel(**launch.arguments())
    return context


def test_several_processes_build_at_once_into_an_empty_cache(tmp_path):
    workers = [python(BUILD_AND_WRITE, KV_CANARY_FUZZ_CACHE=str(tmp_path)) for _ in range(3)]
    results = [worker.communicate(timeout=120) for worker in workers]

    assert results == [("[5, 6]\n", "")] * 3
    assert [path.suffix for path in tmp_path.iterdir()] == [".so"]


def test_cache_folder_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "shared"))
    monkeypatch.setenv("KV_CANARY_FUZZ_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
    monkeypatch.delenv("KV_CANARY_FUZZ_CACHE")
    assert cache_folder() == tmp_path / "shared" / "kv-canary-fuzz"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "kv-canary-fuzz"


def test_built_library_is_taken_from_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("KV_CANARY_FUZZ_CACHE", str(tmp_path))
    first = build_library(TINY)
    written = first.stat().st_mtime_ns

    assert build_library(TINY) == first
    assert first.stat().st_mtime_ns == written
    assert build_library(TINY, ("-O1",)) != first
    assert build_library(TINY + "\n") != first


def test_compile_error_shows_the_log_with_the_source_line(monkeypatch, tmp_path):
    monkeypatch.setenv("KV_CANARY_FUZZ_CACHE", str(tmp_path))
    broken = Patch("ring.cuh", "row[1] = violation.slot;", "row[1] = violation.slott;")
    line = read_sources()["ring.cuh"].split(broken.old)[0].count("\n") + 1

    with pytest.raises(CompileError, match=rf"ring\.cuh:{line}:.*slott"):
        emulated.build(patches=(broken,))
    assert list(tmp_path.iterdir()) == []


def test_no_compiler_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(CompilerMissing, match=r"\(g\+\+, c\+\+, clang\+\+\): .*apt install g\+\+"):
        emulated.build()


def test_no_compiler_from_a_process_without_a_path(tmp_path):
    environment = {"PATH": str(tmp_path), "CXX": "", "KV_CANARY_FUZZ_CACHE": str(tmp_path)}
    worker = python(BUILD_AND_WRITE, **environment)
    out, error = worker.communicate(timeout=60)

    assert (out, worker.returncode) == ("", 1)
    assert "CompilerMissing: no C++ compiler found (g++, c++, clang++): install g++" in error


def test_asked_for_compiler_that_does_not_exist(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler -m64")

    with pytest.raises(CompilerMissing, match=r"\(CXX=no-such-compiler\)"):
        build_library(TINY)


def test_asked_for_compiler_is_used_with_its_words(monkeypatch, tmp_path):
    monkeypatch.setenv("KV_CANARY_FUZZ_CACHE", str(tmp_path))
    compiler = shutil.which("g++") or shutil.which("c++")
    monkeypatch.setenv("CXX", f"{compiler} -DUNUSED")

    assert build_library(TINY).exists()


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        (Patch("ring.cuh", "no such text", ""), "ring.cuh: .* found 0 times: no such text"),
        (Patch("ring.cuh", "row[", "row ["), "ring.cuh: .* found 8 times"),
        (Patch("rings.cuh", "row", ""), "no kernel source file 'rings.cuh'"),
    ],
)
def test_patch_that_does_not_apply_fails_the_build(patch, message):
    with pytest.raises(PatchError, match=message):
        emulated.build(patches=(patch,))


def test_every_planted_bug_applies():
    bugs = planted_bugs()
    sources = read_sources()

    assert len(bugs) >= 12
    assert len({bug.name for bug in bugs}) == len(bugs)
    for bug in bugs:
        changed = apply_patches(sources, bug.patches)
        assert {name for name in sources if sources[name] != changed[name]} == set(bug.files)


def test_planted_bug_shows():
    context = one_write(build_planted("hash_constant"))

    assert bytes(context.canary_buf[1].tolist()) != bytes(
        one_write(emulated.build()).canary_buf[1].tolist()
    )
    with pytest.raises(KeyError, match="no planted bug 'no_such_bug'; there are hash_constant, "):
        build_planted("no_such_bug")


def test_lanes_that_never_meet_raise_and_leave_the_build_usable():
    stuck = Patch(
        "chain.cuh",
        "        const bool stays = ",
        "        if (lane == 3) __syncwarp();\n        const bool stays = ",
    )
    kernels = emulated.build(patches=(stuck,))

    with pytest.raises(EmulationError, match="kv_canary_write_plain: block 0 cannot go on: thread"):
        one_write(kernels)
    with pytest.raises(EmulationError, match=r"waits in __syncwarp at chain\.cuh"):
        one_write(kernels)


def test_geometry_beyond_the_build_is_refused(emulated_build):
    emulated_build.block_threads = 192

    with pytest.raises(ValueError, match="block_threads must be 32 to 160, got 192"):
        one_write(emulated_build)


def test_gpu_build_says_what_is_missing():
    if torch.version.cuda is not None:
        pytest.skip("this torch has CUDA")
    with pytest.raises(GpuUnavailable, match="torch sees no CUDA device"):
        gpu.build()


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
@pytest.mark.parametrize("max_sources", [4, 8])
def test_source_compiles_for_a_gpu(architecture, max_sources, tmp_path):
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("nvcc is not on the path")
    source = tmp_path / "kernels.cu"
    source.write_text(translation_unit(read_sources(), KERNEL_ROOT), encoding="utf-8")

    done = subprocess.run(
        [
            nvcc,
            "-std=c++17",
            f"-arch={architecture}",
            "-cubin",
            "-Werror=all-warnings",
            "-Xptxas=-v",
            *abi.definitions(max_sources, 256),
            "-o",
            str(tmp_path / "kernels.cubin"),
            str(source),
        ],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stderr.count(" 0 bytes spill stores, 0 bytes spill loads") == len(abi.KERNELS)


@pytest.mark.parametrize(("cuda", "extra"), [("12.8", "cuda12"), ("13.0", "cuda13")])
def test_missing_cupy_names_the_extra(monkeypatch, cuda, extra):
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setitem(sys.modules, "cupy", None)

    with pytest.raises(GpuUnavailable, match=rf"pip install kv-canary-fuzz\[{extra}\]"):
        gpu.build()


def test_cupy_that_cannot_be_imported_is_one_line(monkeypatch, tmp_path):
    message = "\n====\nFailed to import CuPy.\n" + "and why\n" * 100
    (tmp_path / "cupy.py").write_text(f"raise ImportError({message!r})", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)

    with pytest.raises(GpuUnavailable) as missing:
        gpu.build()

    line = str(missing.value)
    assert line.startswith(
        "the GPU build needs CuPy: install it with 'pip install kv-canary-fuzz[cuda13]' "
        "(==== Failed to import CuPy. and why "
    )
    assert "\n" not in line
    assert len(line) < 300


def test_cupy_newer_than_the_driver_names_the_extra(monkeypatch):
    runtime = SimpleNamespace(runtimeGetVersion=lambda: 13000, driverGetVersion=lambda: 12080)
    cupy = SimpleNamespace(cuda=SimpleNamespace(runtime=runtime))
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setitem(sys.modules, "cupy", cupy)

    with pytest.raises(GpuUnavailable, match=r"CUDA 13 and the driver supports 12: .*\[cuda12\]"):
        gpu.build()


def test_builds_share_the_stacks_of_their_blocks():
    mappings = [len(Path("/proc/self/maps").read_text(encoding="ascii").splitlines())]
    for number in range(4):
        one_write(emulated.build(flags=(f"-DKV_TEST_BUILD={number}",)))
        mappings.append(len(Path("/proc/self/maps").read_text(encoding="ascii").splitlines()))

    assert mappings[-1] - mappings[1] < 100


def test_no_memory_for_stacks_is_said(monkeypatch):
    monkeypatch.setattr(emulated, "_stacks", emulated.Stacks())
    kernels = emulated.build()
    monkeypatch.setattr(kernels._library, "_map_stacks", lambda: None)

    with pytest.raises(EmulationError, match="no memory for the stacks of a block's threads"):
        one_write(kernels)
