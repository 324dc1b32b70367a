"""The CUDA kernels under compute-sanitizer: stray accesses, races, reads of what was never written.

Each tool runs a fixed set of small cases in a process of its own. There every tensor of a launch is
an allocation of its own, and nothing caches allocations, so that a tool knows where each one ends.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from itertools import count, islice
from typing import Any, NamedTuple

import msgspec
import torch

from kv_canary_fuzz.reference import VerifyLaunch, WriteLaunch
from kv_canary_fuzz.reference.relocation import run_elsewhere
from kv_canary_fuzz.strategies.case import Case
from kv_canary_fuzz.strategies.prng import case_at

from .execution.fuzzer import Fuzzer
from .execution.layout import lay_out
from .targets.builtin import load_target
from .targets.target import Target


class Tool(StrEnum):
    MEMCHECK = "memcheck"
    RACECHECK = "racecheck"
    INITCHECK = "initcheck"


SEED = 3
CASES = 256
_BATCH = 32
_MOST_BYTES = 128 * 1024
_REPORTED = 86
_CLEAN = re.compile(r"^=+ (RACECHECK|ERROR) SUMMARY: 0 (hazards|errors)\b", re.MULTILINE)
_MOST_LINES = 40
_OPTIONS = {Tool.MEMCHECK: ("--report-api-errors", "no")}
"""Torch asks for functions that a driver may lack, which is no fault."""
_CHILD = "import sys; from kv_canary_fuzz.harness.gpu_sanitizers import run_cases; run_cases({})"


class SanitizerMissing(Exception):
    """Nothing can be run here; the message is one line that says why."""


class Checked(NamedTuple):
    """What a tool said: nothing where all is well."""

    tool: Tool
    report: str


def check_kernels(cases: int = CASES, tools: Sequence[Tool] = tuple(Tool)) -> Iterator[Checked]:
    """Run the tools over so many cases, one after another. Raises SanitizerMissing."""
    if not torch.cuda.is_available():
        raise SanitizerMissing("compute-sanitizer needs a GPU, and torch sees no CUDA device")
    program = shutil.which("compute-sanitizer")
    if program is None:
        raise SanitizerMissing("compute-sanitizer is not on the path: it comes with CUDA's toolkit")
    for tool in tools:
        yield Checked(tool, _run(program, tool, cases))


def _run(program: str, tool: Tool, cases: int) -> str:
    options = ("--tool", tool, "--error-exitcode", str(_REPORTED), *_OPTIONS.get(tool, ()))
    done = subprocess.run(
        [program, *options, sys.executable, "-c", _CHILD.format(cases)],
        env={**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode == 0 and _CLEAN.search(done.stdout):
        return ""
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    shown = lines[: _MOST_LINES // 2] + lines[_MOST_LINES // 2 :][-_MOST_LINES // 2 :]
    return "\n".join([f"exit status {done.returncode}", *shown])


def run_cases(cases: int, name: str = "cuda") -> None:
    """Run the fixed cases on a target; exits with a line where one of them differs."""
    target = load_target(name)
    if target.device == "cuda":
        import cupy

        cupy.cuda.set_allocator(None)
    fuzzer = Fuzzer(apart(target))
    chosen = list(islice(small_cases(), cases))
    for first in range(0, cases, _BATCH):
        indices, batch = zip(*chosen[first : first + _BATCH], strict=True)
        failing = fuzzer.failing(batch)
        if failing:
            sys.exit(f"case {indices[failing[0]]} of seed {SEED} differs from the reference")


def small_cases() -> Iterator[tuple[int, Case]]:
    """Cases whose launches are legal, put eagerly, by their index; a quarter are hardened ones."""
    for index in count():
        case = case_at(SEED, index, "valid" if index % 4 else "hardened")
        if lay_out(case).size <= _MOST_BYTES:
            yield index, msgspec.structs.replace(case, launching="eager")


def apart(target: Target) -> Target:
    """The target with each tensor of a launch in an allocation of its own."""

    def write(**arguments: Any) -> None:
        launch = WriteLaunch(**arguments)
        run_elsewhere(launch, torch.Tensor.clone, lambda own: target.write(**own.arguments()))

    def verify(**arguments: Any) -> None:
        launch = VerifyLaunch(**arguments)
        run_elsewhere(launch, torch.Tensor.clone, lambda own: target.verify(**own.arguments()))

    return replace(target, write=write, verify=verify)
