"""Campaigns whose folder fills up or cannot be written to: what they say, and what they keep."""

from __future__ import annotations

import json
import os
import resource
import runpy
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kv_canary_fuzz.harness.campaign.run_folder import RunFolder
from kv_canary_fuzz.harness.campaign.tenancy import FolderTaken, check_free
from kv_canary_fuzz.harness.findings.reproducer import Reproducer, read_reproducer, write_reproducer
from kv_canary_fuzz.strategies.case import Case

CONFTEST = runpy.run_path(str(Path(__file__).with_name("conftest.py")))
MAIN, SMALL = CONFTEST["MAIN"], CONFTEST["SMALL"]
MOUNTS: bool = bool(CONFTEST["namespace"]())

SIGNATURE = "write: slot_run_counter"
NOT_WHOLE = "the run is not whole; run it again with --seed 5 where there is room to write"
NO_FILE = "    no file could be written; saved as NAME.kvcase.json, this replays it:"


def check_folder(root: Path) -> None:
    """Every file is whole, and none is left over."""
    for path in root.rglob("*"):
        assert not path.name.endswith(".tmp")
        if path.name.endswith(".kvcase.json"):
            assert read_reproducer(path).signature == SIGNATURE
        elif path.suffix == ".json" and path.is_file():
            json.loads(path.read_bytes())


def test_a_campaign_whose_disk_fills_up(
    mounted: Callable[..., subprocess.CompletedProcess[str]], broken: list[str], tmp_path: Path
) -> None:
    words = [*broken, "--cases", "900", "--workers", "1", "--out", "disk/run"]
    ran = mounted(SMALL, words, size="12k")
    assert ran.returncode == 2, ran.stdout + ran.stderr
    [line] = ran.stderr.splitlines()
    assert line.startswith("disk/run/")
    assert "No space left on device" in line
    assert line.endswith(NOT_WHOLE)

    lines = ran.stdout.splitlines()
    assert "1 finding:" in lines
    assert any(line.startswith(f"  {SIGNATURE} (") for line in lines)
    for name in ("shrunk.kvcase.json", "run.json", "report.html"):
        [unwritten] = [line for line in lines if line.startswith("not written") and name in line]
        assert unwritten.endswith(": No space left on device")
    start = lines.index(NO_FILE) + 1
    saved = tmp_path / "saved.kvcase.json"
    saved.write_text("\n".join(lines[start : lines.index("}", start) + 1]))
    assert read_reproducer(saved).signature == SIGNATURE
    assert (tmp_path / "kept" / "run" / "run.lock").exists()
    check_folder(tmp_path / "kept")


@pytest.mark.parametrize(
    "workers", ["2" if not MOUNTS else pytest.param("2", marks=pytest.mark.nightly)]
)
def test_a_campaign_whose_workers_may_not_write_on(
    workers: str, broken: list[str], tmp_path: Path
) -> None:
    """As above where nothing may be mounted: a limit for the workers, in the middle of the run."""
    process = subprocess.Popen(
        [*broken, "--seconds", "300", "--workers", workers, "--out", "run"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + 120
    while not list(tmp_path.glob("run/findings/*/case-*")) and time.monotonic() < until:
        time.sleep(0.05)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    for child in map(int, children):
        resource.prlimit(child, resource.RLIMIT_FSIZE, (10, 10))
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 2, output + errors
    [line] = errors.splitlines()
    assert line.startswith("run/")
    assert "File too large" in line
    assert line.endswith(NOT_WHOLE)
    assert f"  {SIGNATURE} (" in output
    found = json.loads((tmp_path / "run" / "run.json").read_text())
    assert [finding["signature"] for finding in found["findings"]] == [SIGNATURE]
    assert found["unwritten"]
    check_folder(tmp_path / "run")


SEVERAL = """
import contextlib, io, json, sys
from kv_canary_fuzz.harness.cli import main

for words in json.loads(sys.argv[1]):
    sys.argv[1:] = words
    out, err, status = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as ended:
            status = int(ended.code or 0)
    print(json.dumps([status, out.getvalue(), err.getvalue()]))
"""


def test_where_nothing_can_be_written_nothing_is_run(
    read_only: Callable[[list[str]], tuple[subprocess.CompletedProcess[str], str]],
    run_root: Path,
    tmp_path: Path,
) -> None:
    """Every command that writes: one line, exit status 2, and no case before that."""
    (tmp_path / "disk" / "corpus").mkdir(parents=True)
    found = Reproducer(
        signature=SIGNATURE, target="scalar", reference="torch", case=Case(num_slots=1)
    )
    write_reproducer(tmp_path / "disk" / "corpus" / "a.kvcase.json", found)
    subprocess.run(["cp", "-r", str(run_root), str(tmp_path / "disk" / "run")], check=True)
    run = ["run", "--target", "scalar", "--cases", "1"]
    commands = {
        "disk/new": [*run, "--out", "disk/new"],
        "disk/run/run.lock": [*run, "--out", "disk/run"],
        "disk/corpus/added.kvcase.json": [*run, "--out", "out", "--corpus", "disk/corpus"],
        "disk/corpus/a.shrunk.kvcase.json": ["shrink", "disk/corpus/a.kvcase.json"],
        "disk/small.kvcase.json": [
            *("shrink", "disk/corpus/a.kvcase.json", "--out", "disk/small.kvcase.json")
        ],
        "disk/run/report.html": ["report", "disk/run"],
        "disk/board.json": ["mutants", "--only", "grid", "--json", "disk/board.json"],
        "disk/bench.json": ["bench", "--target", "scalar", "--json", "disk/bench.json"],
        "disk/cases": ["corpus", "init", "disk/cases"],
        "disk/reproducers": ["ledger", "update", "disk/run", "--ledger", "disk/ledger.toml"],
    }
    ran, why = read_only([sys.executable, "-c", SEVERAL, json.dumps(list(commands.values()))])
    assert ran.returncode == 0, ran.stderr
    said = [json.loads(line) for line in ran.stdout.splitlines()]
    assert said == [[2, "", f"{file}: {why}\n"] for file in commands]


PYTEST = """
import resource

def pytest_sessionstart(session):
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, resource.RLIM_INFINITY))
"""


@pytest.mark.nightly
def test_under_pytest_the_shards_say_what_they_could_not_write(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(PYTEST)
    (tmp_path / "test_mine.py").write_text("def test_it(kv_shard):\n    kv_shard.run()\n")
    words = ["-p", "no:cacheprovider", "--kv-target=scalar", "--kv-cases=2048", "--kv-out=run"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ran.returncode == pytest.ExitCode.TESTS_FAILED, ran.stdout + ran.stderr
    assert "Traceback" not in ran.stdout + ran.stderr
    assert ran.stdout.count("File too large: the shard ended early") == 8
    assert "8 failed" in ran.stdout


@pytest.mark.nightly
def test_of_two_campaigns_that_begin_in_one_folder_one_runs(tmp_path: Path) -> None:
    words = [*MAIN, "run", "--target", "scalar", "--cases", "6000", "--seed", "3", "--out", "run"]
    pipe = subprocess.PIPE
    processes = [
        subprocess.Popen(words, cwd=tmp_path, stdout=pipe, stderr=pipe, text=True) for _ in range(2)
    ]
    said = [process.communicate(timeout=240) for process in processes]
    assert sorted(process.returncode for process in processes) == [0, 2]
    [refused] = [
        err for process, (_, err) in zip(processes, said, strict=True) if process.returncode
    ]
    assert "is in use by another run" in refused
    assert len(refused.splitlines()) == 1
    found: dict[str, Any] = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (found["cases"], found["lost"]) == (6000, [])


@pytest.mark.nightly
def test_a_campaign_that_is_killed_leaves_whole_files_and_its_folder_free(
    broken: list[str], tmp_path: Path
) -> None:
    """Its workers end with it; the next run says what was in flight and begins afresh."""
    words = [*broken, "--workers", "2", "--out", "run"]
    folder = RunFolder(tmp_path / "run")
    killed = subprocess.Popen([*words, "--seconds", "300"], cwd=tmp_path, stderr=subprocess.PIPE)
    with killed:
        until = time.monotonic() + 120
        while not folder.lost_batches() and time.monotonic() < until:
            time.sleep(0.02)
        killed.kill()
    while True:
        try:
            check_free(folder)
            break
        except FolderTaken:
            assert time.monotonic() < until
            time.sleep(0.05)
    check_folder(folder.root)
    ran = subprocess.run(
        [*words, "--cases", "256"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 1, ran.stderr
    assert ran.stdout.startswith("an earlier run was killed in this folder, over its cases ")
    found = json.loads(folder.summary.read_bytes())
    assert (found["cases"], found["lost"], found["unwritten"]) == (256, [], [])
    check_folder(folder.root)


@pytest.mark.nightly
def test_output_that_cannot_be_written_is_one_line() -> None:
    with open("/dev/full", "w") as full:
        ran = subprocess.run(
            [*MAIN, "schema"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (ran.returncode, ran.stderr) == (2, "standard output: No space left on device\n")
