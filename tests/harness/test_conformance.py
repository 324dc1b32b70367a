"""The conformance test on targets that are right, and on targets that lack something."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from kv_canary_fuzz.harness.cli import main
from kv_canary_fuzz.harness.conformance.checks import (
    Check,
    device,
    domain,
    golden_vectors,
    graph_replay,
    launchers,
    launches,
    schedules,
    strided_rows,
)
from kv_canary_fuzz.harness.targets.builtin import load_target
from kv_canary_fuzz.harness.targets.target import Target, load_module_target
from kv_canary_fuzz.strategies.classify import Domain

HEAD = """
import os
from kv_canary_fuzz.reference import scalar_model


def launch_canary_write_kernel(**arguments):
    scalar_model.launch_canary_write_kernel(**arguments)


def launch_canary_verify_kernel(**arguments):
    scalar_model.launch_canary_verify_kernel(**arguments)
"""


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Target]:
    """Builds a target of a module that is right but for the lines given."""
    monkeypatch.chdir(tmp_path)

    def build(lines: str = "", name: str = "conforming") -> Target:
        (tmp_path / f"{name}.py").write_text(HEAD + lines)
        monkeypatch.delitem(sys.modules, name, raising=False)
        return load_module_target(name)

    return build


def test_arguments_that_are_missing_and_arguments_that_no_caller_gives(
    module: Callable[..., Target],
) -> None:
    assert launchers(load_target("emulated")).state == "ok"
    assert launchers(module()).state == "ok"
    odd = module(
        "def launch_canary_verify_kernel(*, context, plan, stream): pass\n", "odd_arguments"
    )
    check = launchers(odd)
    assert check.state == "missing"
    assert check.lines == (
        "launch_canary_verify_kernel does not take 'check_verify_expected_token'",
        "launch_canary_verify_kernel wants 'stream', which no caller gives",
    )


def test_a_device_that_torch_does_not_have(module: Callable[..., Target]) -> None:
    check = device(module("DEVICE = 'npu:0'\n", "elsewhere"))
    assert (check.name, check.state) == ("tensors can live on its device, npu:0", "missing")
    assert check.lines[0].startswith("torch cannot make one there: ")
    assert device(module()) == Check("tensors can live on its device, cpu", "ok")


def test_a_launch_that_does_not_return(module: Callable[..., Target]) -> None:
    check = launches(
        module("def launch_canary_write_kernel(**_): raise OSError('no driver')\n", "raising")
    )
    assert check.state == "missing"
    assert check.lines == ("raising cannot be built or launched: OSError: no driver",)
    assert launches(module()).state == "ok"


WRONG_HASH = """
def launch_canary_write_kernel(**arguments):
    scalar_model.launch_canary_write_kernel(**arguments)
    context = arguments["context"]
    if context.real_kv_sources:
        context.slot_run_counter.add_(1)
"""


def test_golden_vectors(module: Callable[..., Target]) -> None:
    assert golden_vectors(module()) == Check("the 160 golden vectors are reproduced", "ok")
    check = golden_vectors(module(WRONG_HASH, "miscounting"))
    assert check.state == "missing"
    assert check.lines[0].endswith("(write) differs in slot_run_counter")
    assert check.lines[-1].endswith("more of 160 vectors")


def test_claims_against_behaviour(module: Callable[..., Target]) -> None:
    wrong = domain(module(WRONG_HASH, "miscounting"), Domain.VALID, 40)
    assert (wrong.name, wrong.state) == ("40 valid cases agree with the reference", "missing")
    assert " cases, write: slot_run_counter: slot_run_counter: expected " in wrong.lines[0]

    modest = module("DOMAINS = ('valid',)\n", "modest")
    assert domain(modest, Domain.VALID, 40).state == "ok"
    unclaimed = domain(modest, Domain.HARDENED, 40)
    assert (unclaimed.state, unclaimed.lines) == (
        "not claimed",
        ("DOMAINS lacks 'hardened', and all of them agreed: it may be claimed",),
    )

    unchecked = """
def launch_canary_verify_kernel(**arguments):
    if arguments["context"].canary_buf.is_contiguous():
        scalar_model.launch_canary_verify_kernel(**arguments)
"""
    refusing = domain(module(unchecked, "unchecked"), Domain.REFUSED, 160)
    assert refusing.state == "missing"
    assert any("verify: raised nothing, not ValueError" in line for line in refusing.lines)


def test_strided_rows(module: Callable[..., Target]) -> None:
    refused = strided_rows(module(), 12)
    assert refused == Check("12 cases with rows apart are refused, as in revision 2026-08-28", "ok")
    claims = strided_rows(module("CONTRACT = '0.5.23'\n", "later"), 12)
    assert claims.state == "missing"
    assert "real_kv_sources[0].tensor must be contiguous" in claims.lines[0]
    assert strided_rows(load_target("emulated"), 12).state == "ok"
    modest = module("DOMAINS = ('valid',)\n", "modest")
    assert strided_rows(modest, 12).lines == ("DOMAINS lacks 'refused'",)


def test_graphs_and_schedules(module: Callable[..., Target]) -> None:
    plain = module()
    assert graph_replay(plain, 4).lines == ("device cpu has no graphs",)
    assert schedules(plain).lines == ("there is no set_schedule",)
    assert schedules(load_target("emulated")).state == "ok"
    broken = module("def set_schedule(seed): raise OverflowError(seed)\n", "unschedulable")
    assert schedules(broken).lines == (f"it raised OverflowError({2**64 - 1})",)


@pytest.mark.gpu
def test_the_gpu_build_conforms_with_graphs() -> None:
    if not torch.cuda.is_available():
        pytest.skip("torch sees no CUDA device")
    pytest.importorskip("cupy", reason="CuPy is not installed")
    assert graph_replay(load_target("cuda"), 16).state == "ok"


def conforms(name: str, monkeypatch: Any, capsys: Any) -> tuple[int, str]:
    monkeypatch.setattr(sys, "argv", ["kv-canary-fuzz", "conformance", name])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0), capsys.readouterr().out


def test_the_command_on_a_target_that_conforms(monkeypatch: Any, capsys: Any) -> None:
    status, said = conforms("torch", monkeypatch, capsys)
    assert status == 0, said
    assert said.endswith("torch conforms\n")
    assert said.count("\nok ") == 8


def test_the_command_on_one_that_ends_its_process(
    module: Callable[..., Target], monkeypatch: Any, capsys: Any
) -> None:
    module("def launch_canary_verify_kernel(**_): os._exit(7)\n", "deadly_port")
    status, said = conforms("deadly_port", monkeypatch, capsys)
    assert status == 1
    assert said.splitlines()[-3:] == [
        "missing      the next check comes to its end",
        "               it ended the process: exit status 7; kv-canary-fuzz run finds and shrinks "
        "the case that does it",
        "1 of the checks failed",
    ]


def test_the_command_on_one_that_is_not_there(monkeypatch: Any, capsys: Any) -> None:
    status, said = conforms("no.such.port", monkeypatch, capsys)
    assert status == 1
    assert said.splitlines()[0] == (
        "missing      it can be loaded, and claims what there is to claim"
    )
    assert "target 'no.such.port' cannot be imported: ModuleNotFoundError" in said
