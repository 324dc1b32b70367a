"""The kernels under compute-sanitizer: what a tool's answer means, and the cases that it runs."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from kv_canary_fuzz.harness.cli import main
from kv_canary_fuzz.harness.gpu_sanitizers import (
    Checked,
    Tool,
    apart,
    check_kernels,
    run_cases,
    small_cases,
)
from kv_canary_fuzz.harness.judging.verdict import judge
from kv_canary_fuzz.harness.targets.builtin import load_target
from kv_canary_fuzz.strategies.case import WriteStep

ERRORS = "========= ERROR SUMMARY: 0 errors"
HAZARDS = "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)"


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in compute-sanitizer's place, on a machine that seems to have a GPU."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path / "compute-sanitizer"


def answering(tool: Path, body: str) -> None:
    tool.write_text(f"#!/bin/sh\n{body}\n")
    tool.chmod(0o755)


def test_clean_answers_of_the_three_tools(tool: Path) -> None:
    answering(
        tool,
        f'test "$PYTORCH_NO_CUDA_MEMORY_CACHING" = 1 || exit 1\n'
        f'if test "$2" = racecheck; then echo "{HAZARDS}"; else echo "{ERRORS}"; fi',
    )
    assert list(check_kernels(5)) == [
        Checked(Tool.MEMCHECK, ""),
        Checked(Tool.RACECHECK, ""),
        Checked(Tool.INITCHECK, ""),
    ]
    assert list(check_kernels(5, [Tool.RACECHECK])) == [Checked(Tool.RACECHECK, "")]


@pytest.mark.parametrize(
    ("body", "report"),
    [
        ("echo '========= ERROR SUMMARY: 2 errors'; exit 86",
         "exit status 86\n========= ERROR SUMMARY: 2 errors"),
        ("echo '========= RACECHECK SUMMARY: 1 hazard displayed (0 errors, 1 warning)'",
         "exit status 0\n========= RACECHECK SUMMARY: 1 hazard displayed (0 errors, 1 warning)"),
        (f"echo 'case 3 of seed 3 differs'; echo '{ERRORS}'; exit 1",
         f"exit status 1\ncase 3 of seed 3 differs\n{ERRORS}"),
        ("echo 'Device not supported'", "exit status 0\nDevice not supported"),
    ],
)  # fmt: skip
def test_anything_else_is_a_report(
    tool: Path, body: str, report: str, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    answering(tool, body)
    assert next(check_kernels(5)) == Checked(Tool.MEMCHECK, report)
    monkeypatch.setattr(sys, "argv", ["kv-canary-fuzz", "sanitize-gpu", "--cases", "5"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    assert capsys.readouterr().out.startswith(f"memcheck: {report}\n")


def test_without_the_tool_or_a_gpu_one_line_says_so(
    tool: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["kv-canary-fuzz", "sanitize-gpu"])
    for line in (
        "compute-sanitizer is not on the path: it comes with CUDA's toolkit\n",
        "compute-sanitizer needs a GPU, and torch sees no CUDA device\n",
    ):
        with pytest.raises(SystemExit) as ended:
            main()
        assert (ended.value.code, capsys.readouterr().err) == (2, line)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert not tool.exists()


def test_the_cases_pass_on_the_right_kernels_alone(capsys: pytest.CaptureFixture[str]) -> None:
    run_cases(40, "emulated")
    with pytest.raises(SystemExit, match=r"^case \d+ of seed 3 differs from the reference$"):
        run_cases(40, "planted:hash_constant")
    assert capsys.readouterr().out == ""


def test_tensors_of_a_launch_lie_apart() -> None:
    seen: set[int] = set()
    kernels = load_target("emulated")

    def write(**arguments: Any) -> None:
        context = arguments["context"]
        tensors = [context.canary_buf, context.violation_ring, arguments["input_ids"]]
        seen.update(tensor.untyped_storage().data_ptr() for tensor in tensors)
        kernels.write(**arguments)

    target = apart(replace(kernels, write=write))
    case = next(case for _, case in small_cases() if isinstance(case.steps[0], WriteStep))
    assert judge(case, target).agrees
    assert len(seen) >= 3
