"""The command line as a person uses it: real processes, what they print, and their exit status."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kv_canary_fuzz.harness.targets.builtin import BUILTIN

ENTRY = [
    sys.executable,
    "-c",
    "from kv_canary_fuzz.harness.cli import main; main()",
]

KILLER = """
import os, signal
from kv_canary_fuzz.reference import scalar_model

launch_canary_verify_kernel = scalar_model.launch_canary_verify_kernel


def launch_canary_write_kernel(**arguments):
    scalar_model.launch_canary_write_kernel(**arguments)
    if arguments["input_ids"].shape[0] == 37:
        os.kill(os.getpid(), signal.SIGSEGV)
"""


def command(*words: str, cwd: Path, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*ENTRY, *words], cwd=cwd, timeout=timeout, capture_output=True, text=True, check=False
    )


@pytest.fixture
def broken(tmp_path: Path, miscounting: str) -> Path:
    """A folder with a target of one's own that miscounts where there are two sources."""
    (tmp_path / "broken.py").write_text(miscounting)
    return tmp_path


def test_from_a_seed_to_a_reproducer_that_replays(broken: Path) -> None:
    ran = command(
        *("run", "--target", "broken", "--cases", "300", "--seed", "5", "--workers", "2"),
        *("--domain", "valid", "--out", "run"),
        cwd=broken,
    )
    assert ran.returncode == 1, ran.stderr
    summary = json.loads((broken / "run" / "run.json").read_text())
    assert summary["cases"] == 300
    [finding] = summary["findings"]
    assert finding["signature"] == "write: slot_run_counter"
    assert finding["lines"] == ["slot_run_counter: expected 0, found 1"]
    assert finding["alone"].startswith("broken stands alone")
    assert f"replay: kv-canary-fuzz replay {finding['file']}" in ran.stdout

    file = finding["file"]
    assert (broken / file).stat().st_size <= 4096
    replayed = command("replay", file, cwd=broken)
    assert replayed.returncode == 1
    assert "slot_run_counter: expected 0, found 1" in replayed.stdout
    shown = command("show", file, cwd=broken)
    assert shown.returncode == 0
    assert "step 0: write" in shown.stdout
    assert "[00]" in shown.stdout
    fixed = command("replay", file, "--target", "scalar", cwd=broken)
    assert fixed.returncode == 0, fixed.stdout


def test_the_result_does_not_depend_on_the_number_of_workers(broken: Path) -> None:
    found = []
    for workers in ("1", "3"):
        command(
            *("run", "--target", "broken", "--cases", "500", "--seed", "9"),
            *("--workers", workers, "--out", f"run{workers}"),
            cwd=broken,
        )
        summary = json.loads((broken / f"run{workers}" / "run.json").read_text())
        summary.pop("timing")
        for finding in summary["findings"]:
            finding["file"] = finding["file"].removeprefix(f"run{workers}/")
        found.append(summary)
    assert found[0] == found[1]


def test_only_the_case_that_kills_the_process_is_blamed(tmp_path: Path) -> None:
    (tmp_path / "killer.py").write_text(KILLER)
    ran = command(
        *("run", "--target", "killer", "--cases", "700", "--seed", "2", "--workers", "1"),
        *("--domain", "valid", "--out", "run"),
        cwd=tmp_path,
    )
    assert ran.returncode == 1, ran.stderr
    summary = json.loads((tmp_path / "run" / "run.json").read_text())
    assert summary["cases"] == 700
    [finding] = summary["findings"]
    assert finding["signature"] == "crash: segfault in write"
    case = json.loads((tmp_path / finding["file"]).read_text())["case"]
    assert any(step.get("input_ids", {}).get("length") == 37 for step in case["steps"])


def test_an_interrupted_campaign_keeps_its_findings(broken: Path) -> None:
    process = subprocess.Popen(
        [*ENTRY, "run", "--target", "broken", "--seconds", "300", "--out", "run"],
        cwd=broken,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    until = time.monotonic() + 60
    while not list(broken.glob("run/findings/*/case-*")) and time.monotonic() < until:
        time.sleep(0.2)
    os.killpg(process.pid, signal.SIGINT)
    output, errors = process.communicate(timeout=90)
    assert process.returncode == 1, errors
    assert "write: slot_run_counter" in output
    assert "run folder: run" in output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("run", "--target", "nowhere.to_be_found"),
            "target 'nowhere.to_be_found' cannot be imported: ModuleNotFoundError: "
            f"No module named 'nowhere'; built-in targets: {', '.join(BUILTIN)}",
        ),
        (
            ("run", "--target", "json"),
            "target 'json' lacks launch_canary_write_kernel and launch_canary_verify_kernel; "
            f"built-in targets: {', '.join(BUILTIN)}",
        ),
        (("run", "--cases", "0"), "cases must be at least 1, got 0"),
        (
            ("run", "--target", "torch", "--cases", "1", "--out", "damaged.kvcase.json/run"),
            "damaged.kvcase.json/run: Not a directory",
        ),
        (("replay", "absent.kvcase.json"), None),
        (("show", "damaged.kvcase.json"), None),
        (("shrink", "damaged.kvcase.json"), None),
        (("replay", "damaged.kvcase.json"), None),
    ],
)
def test_bad_input_is_one_line_and_exit_status_2(
    tmp_path: Path, words: tuple[str, ...], message: str | None
) -> None:
    (tmp_path / "damaged.kvcase.json").write_text('{"format": "kv-canary-fuzz case", "ver')
    before = sorted(tmp_path.rglob("*"))
    ran = command(*words, cwd=tmp_path)
    assert ran.returncode == 2
    assert ran.stdout == ""
    [line] = ran.stderr.splitlines()
    if message is None:
        assert words[1] in line
    else:
        assert line == message
    assert sorted(tmp_path.rglob("*")) == before


def test_targets_are_listed(tmp_path: Path) -> None:
    ran = command("targets", cwd=tmp_path)
    assert ran.returncode == 0
    for name in BUILTIN:
        assert name in ran.stdout


def test_without_a_compiler_a_line_says_what_to_install(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PATH": str(tmp_path),
        "CXX": "",
        "KV_CANARY_FUZZ_CACHE": str(tmp_path / "cache"),
    }
    ran = subprocess.run(
        [*ENTRY, "run", "--target", "emulated", "--seconds", "1"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 2
    [line] = ran.stderr.splitlines()
    assert "install" in line
    assert "g++" in line
