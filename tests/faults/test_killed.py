"""Processes of a campaign killed at random instants: it ends as if nobody had."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

SEED = int(os.environ.get("KV_FAULT_SEED", "1"))
"""Of the instants; a round of `make faults` has its own."""

HERE = Path(__file__).parent
KILLED = "KV_TEST_KILLED"

KILLS = 6
MAIN = "from kv_canary_fuzz.harness.cli import main; main()"


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", MAIN, "run", *words, "--seed", "5", "--out", "run"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def descendants(process: int) -> list[int]:
    """The processes below one, by what the system says of each process's parent."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
    found = [process]
    for parent in found:
        found += [child for child, its_parent in parents.items() if its_parent == parent]
    return found[1:]


def is_campaign(process: int) -> bool:
    """Whether a process runs Python, so neither a compiler nor multiprocessing's own helper."""
    try:
        line = Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return False
    return b"python" in line and b"resource_tracker" not in line


def run_json(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "run" / "run.json").read_text())
    return found


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("undisturbed")
    process = start(folder, "--target", "emulated", "--cases", "1024", "--workers", "1")
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return run_json(folder)


@pytest.mark.seeded
@pytest.mark.nightly
def test_nothing_is_lost_and_nobody_blamed(tmp_path: Path, undisturbed: dict[str, Any]) -> None:
    chance = random.Random(SEED)
    process = start(tmp_path, "--target", "emulated", "--cases", "1024", "--workers", "2")
    killed = 0
    while process.poll() is None and killed < KILLS:
        time.sleep(chance.uniform(0.05, 0.8))
        victims = [one for one in descendants(process.pid) if is_campaign(one)]
        if victims and (tmp_path / "run" / "in-flight").exists():
            try:
                os.kill(chance.choice(victims), signal.SIGKILL)
            except ProcessLookupError:
                continue
            killed += 1
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    found = run_json(tmp_path)
    assert killed > 0
    assert found["findings"] == []
    for name in ("cases", "features", "never_met", "pairs"):
        assert found[name] == undisturbed[name], name
    assert output.count("a worker process was killed over cases") == len(found["lost"])


CAMPAIGN = """
def test_campaign(kv_shard):
    kv_shard.run()
"""

KILLER = """
import os, signal
from kv_canary_fuzz.harness.execution import fuzzer

once = fuzzer.Fuzzer.failing
batches = 0


def failing(self, cases):
    global batches
    batches += 1
    if batches == 3 and os.environ.get("PYTEST_XDIST_WORKER") == "gw0":
        os.kill(os.getpid(), signal.SIGKILL)
    return once(self, cases)


fuzzer.Fuzzer.failing = failing
"""


@pytest.mark.nightly
def test_a_worker_of_pytest_that_is_killed_loses_no_batch(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_campaign=CAMPAIGN)
    pytester.makeconftest(KILLER)
    words = ("--kv-target=emulated", "--kv-cases=3072", "--kv-seed=4", "--kv-out=run", "-n2")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", *words, timeout=200)
    result.stdout.fnmatch_lines(["*a worker process was killed over cases * run again*"])
    found = run_json(pytester.path)
    [lost] = found["lost"]  # the last of the three batches of a shard
    assert lost["first"] >= 2048
    assert lost["count"] == 128
    assert found["cases"] == 3072
    assert found["findings"] == []


@pytest.mark.parametrize("workers", [1, 2])
def test_a_worker_killed_behind_its_last_batch_is_not_replaced(
    workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    monkeypatch.setenv(KILLED, str(tmp_path / "killed"))
    words = ("--target", "leaving_target", "--cases", "384", "--workers", str(workers))
    process = start(tmp_path, *words)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    found = run_json(tmp_path)
    assert (tmp_path / "killed").exists()
    assert found["cases"] == 384
    assert found["findings"] == []
    assert found["lost"] == []
