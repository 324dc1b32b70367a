"""The standalone script of a finding: short, plain, and it shows the same difference."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from kv_canary_fuzz.harness.execution.fuzzer import Fuzzer
from kv_canary_fuzz.harness.findings.reproducer import Reproducer
from kv_canary_fuzz.harness.findings.script import MOST_LINES, script_text
from kv_canary_fuzz.harness.judging.verdict import judge
from kv_canary_fuzz.harness.targets.builtin import load_target
from kv_canary_fuzz.harness.targets.target import Target, load_module_target
from kv_canary_fuzz.strategies.case import Case
from kv_canary_fuzz.strategies.prng import case_at

BATCH = 64
MOST_CASES = 20_000

MODULE = """
import torch
from kv_canary_fuzz.reference import scalar_model


def launch_canary_write_kernel(**arguments):
    {before}
    scalar_model.launch_canary_write_kernel(**arguments)
    context = arguments["context"]
    {after}


def launch_canary_verify_kernel(**arguments):
    {before}
    scalar_model.launch_canary_verify_kernel(**arguments)
"""

DEFECTS = {
    "spills": ("", "c = context.canary_buf; torch.as_strided(c, (1,), (1,), "
               "c.storage_offset() + c.numel())[0] ^= 255"),
    "edits_input": ("", "arguments['input_ids'].add_(1)"),
    "edits_source": ("", "[s.tensor.add_(1) for s in context.real_kv_sources]"),
    "other_message": ("", "raise RuntimeError('no such device')"),
    "refuses_nothing": ("if len(arguments['context'].real_kv_sources) > 4: return", "pass"),
    "miscounts": ("", "context.kernel_run_counter.add_(1)"),
    "loses_rows": ("", "context.violation_write_index.zero_()"),
}  # fmt: skip


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def first_failing(target: Target, domain: str = "all") -> tuple[int, Case]:
    fuzzer = Fuzzer(target)
    for first in range(0, MOST_CASES, BATCH):
        indices = range(first, first + BATCH)
        cases = [case_at(1, index, domain) for index in indices]
        failing = fuzzer.failing(cases)
        if failing:
            return indices[failing[0]], cases[failing[0]]
    raise AssertionError(f"{target.name} not found in {MOST_CASES} cases")


def script_of(target: Target, domain: str = "all") -> str:
    """The script of an unshrunk case, which has all there is in a case."""
    index, case = first_failing(target, domain)
    verdict = judge(case, target)
    found = Reproducer(
        case=case,
        signature=verdict.signature,
        target=target.name,
        reference="torch",
        seed=1,
        index=index,
    )
    text = script_text(found, target, None, verdict)
    assert 0 < len(text.splitlines()) <= MOST_LINES
    return text


def status(path: Path) -> int:
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(path))
    return int(ended.value.code or 0)


@pytest.mark.parametrize(
    "bug",
    [
        *("hash_constant", "skipped_counted", "seed_zero_is_none", "predecessor_zero_is_real"),
        *("row_fields_swapped", "ring_one_short", "write_past_slot", "chain_sync_missing"),
    ],
)
def test_the_script_tells_a_planted_bug_from_the_right_kernel(bug: str, tmp_path: Path) -> None:
    text = script_of(load_target(f"planted:{bug}"))
    path = tmp_path / "reproduce.py"
    path.write_text(text)
    assert status(path) == 1
    clean = text.replace("kernels.planted import build_planted", "kernels import emulated")
    path.write_text(clean.replace(f"build_planted({bug!r})", "emulated.build()"))
    assert status(path) == 0


@pytest.mark.parametrize("name", DEFECTS)
def test_the_script_shows_what_a_module_of_ones_own_does(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = DEFECTS[name]
    module = f"defect_{name}"
    (tmp_path / f"{module}.py").write_text(
        MODULE.format(before=before or "pass", after=after).replace("\n    pass\n", "\n")
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    text = script_of(load_module_target(module))
    path = tmp_path / "reproduce.py"
    path.write_text(text)
    assert status(path) == 1
    right = "from kv_canary_fuzz.reference import scalar_model as target"
    path.write_text(text.replace(f"import {module} as target", right))
    assert status(path) == 0


def test_the_script_is_a_program(run_root: Path) -> None:
    [path] = run_root.glob("findings/*/reproduce.py")
    ran = subprocess.run(
        [sys.executable, path], capture_output=True, text=True, check=False, timeout=120
    )
    assert ran.returncode == 1, ran.stderr
    assert ran.stdout.startswith("slot 0, prev_hash (request 3, entry 1, chain position 0): ")
    assert "expected 0xde7fae23a9a1b716 - found 0xf0d7fe5eb92c788f" in ran.stdout
    lines = path.read_text().splitlines()
    assert len(lines) < 40
    imported = [line for line in lines if line.startswith(("import ", "from "))]
    assert imported == [
        "from types import SimpleNamespace as Bag",
        "import torch",
        "from kv_canary_fuzz.kernels.planted import build_planted",
    ]
