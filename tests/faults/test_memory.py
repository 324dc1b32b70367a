"""Memory that the harness asks for and does not get is nobody's finding."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec.structs import replace as changed

from kv_canary_fuzz.harness.execution.fuzzer import Fuzzer
from kv_canary_fuzz.harness.isolation import isolation as isolation_module
from kv_canary_fuzz.harness.isolation.deadline import Deadline
from kv_canary_fuzz.harness.isolation.isolation import Isolation
from kv_canary_fuzz.harness.isolation.nursery import Nursery
from kv_canary_fuzz.harness.isolation.zygote import Brief
from kv_canary_fuzz.harness.judging.verdict import judge
from kv_canary_fuzz.harness.targets.target import Target, TargetError
from kv_canary_fuzz.strategies.case import Case, Column

HERE = Path(__file__).parent
TOO_LITTLE = (
    "too little memory for 'crowded_target': try fewer --workers "
    "(large memory for a launch: CUDA out of memory. Tried to allocate 4.00 GiB.)"
)
BuildCase = Callable[[str], Case]


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that says how many allocations fail from here on."""
    return tmp_path_factory.mktemp("memory") / "failures"


@pytest.fixture(scope="module")
def nursery(failures: Path) -> Iterator[Nursery]:
    sys.path.insert(0, str(HERE))
    brief = Brief("crowded_target", str(HERE), late=False, heap=None)
    nursery = Nursery(brief, {"KV_TEST_FAILURES": str(failures)})
    yield nursery
    nursery.close()
    sys.path.remove(str(HERE))


@pytest.fixture
def crowded(faulty: Target, nursery: Nursery, monkeypatch: pytest.MonkeyPatch) -> Iterator[Target]:
    monkeypatch.setattr(isolation_module, "PAUSE_SECONDS", 0.0)
    isolation = Isolation(nursery, Deadline(5.0))
    yield replace(faulty, isolation=isolation)
    isolation.let_go()


def test_memory_that_comes_free_again_is_waited_for(
    crowded: Target, write_of: BuildCase, failures: Path
) -> None:
    failures.write_text("2")
    fuzzer = Fuzzer(crowded)
    assert fuzzer.failing([write_of("")] * 3) == []
    assert fuzzer.deaths == {}
    assert failures.read_text() == "0"


def test_memory_that_never_comes_ends_the_run_with_one_line(
    crowded: Target, write_of: BuildCase, failures: Path
) -> None:
    failures.write_text("1000000")
    with pytest.raises(TargetError) as batch:
        Fuzzer(crowded).failing([write_of("")] * 3)
    with pytest.raises(TargetError) as alone:
        judge(write_of(""), crowded)
    assert [str(batch.value), str(alone.value)] == [TOO_LITTLE] * 2


def test_memory_that_the_target_asks_for_is_its_own_fault(
    crowded: Target, write_of: BuildCase, failures: Path
) -> None:
    failures.write_text("0")
    case = write_of("")
    (step,) = case.steps
    greedy = changed(case, steps=(changed(step, input_ids=Column(values=(3001, 5), length=2)),))
    fuzzer = Fuzzer(crowded)
    assert fuzzer.failing([case, greedy, case]) == [1]
    assert fuzzer.deaths[1].signature == "crash: out of memory in write"


@pytest.mark.nightly
def test_a_campaign_without_memory_ends_with_one_line_and_status_two(tmp_path: Path) -> None:
    (tmp_path / "failures").write_text("1000000")
    done = subprocess.run(
        [
            *(sys.executable, "-c", "from kv_canary_fuzz.harness.cli import main; main()", "run"),
            *("--target", "crowded_target", "--workers", "2", "--cases", "512", "--out", "run"),
        ],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]),
            "KV_TEST_FAILURES": str(tmp_path / "failures"),
        },
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert (done.returncode, done.stderr) == (2, TOO_LITTLE + "\n")
