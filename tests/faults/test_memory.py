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


@pytest.fixture
def crowded(
    faulty: Target, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Target]:
    """The target for which so many allocations fail, isolated."""
    monkeypatch.syspath_prepend(str(HERE))
    monkeypatch.setattr(isolation_module, "PAUSE_SECONDS", 0.0)
    environment = {"KV_TEST_COUNTER": str(tmp_path / "met"), "KV_TEST_FAILURES": request.param}
    brief = Brief("crowded_target", str(HERE), late=False, heap=None)
    nursery = Nursery(brief, environment)
    yield replace(faulty, isolation=Isolation(nursery, Deadline(5.0)))
    nursery.close()


@pytest.mark.parametrize("crowded", ["2"], indirect=True)
def test_memory_that_comes_free_again_is_waited_for(
    crowded: Target, write_of: BuildCase, tmp_path: Path
) -> None:
    fuzzer = Fuzzer(crowded)
    assert fuzzer.failing([write_of("")] * 3) == []
    assert fuzzer.deaths == {}
    assert (tmp_path / "met").read_text() == "xx"


@pytest.mark.parametrize("crowded", [str(10**6)], indirect=True)
def test_memory_that_never_comes_ends_the_run_with_one_line(
    crowded: Target, write_of: BuildCase
) -> None:
    with pytest.raises(TargetError) as batch:
        Fuzzer(crowded).failing([write_of("")] * 3)
    with pytest.raises(TargetError) as alone:
        judge(write_of(""), crowded)
    assert [str(batch.value), str(alone.value)] == [TOO_LITTLE] * 2


@pytest.mark.parametrize("crowded", ["0"], indirect=True)
def test_memory_that_the_target_asks_for_is_its_own_fault(
    crowded: Target, write_of: BuildCase
) -> None:
    case = write_of("")
    (step,) = case.steps
    greedy = changed(case, steps=(changed(step, input_ids=Column(values=(3001, 5), length=2)),))
    fuzzer = Fuzzer(crowded)
    assert fuzzer.failing([case, greedy, case]) == [1]
    assert fuzzer.deaths[1].signature == "crash: out of memory in write"


@pytest.mark.nightly
def test_a_campaign_without_memory_ends_with_one_line_and_status_two(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-c", "from kv_canary_fuzz.harness.cli import main; main()", "run"),
            *("--target", "crowded_target", "--workers", "2", "--cases", "512", "--out", "run"),
        ],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]),
            "KV_TEST_COUNTER": str(tmp_path / "met"),
            "KV_TEST_FAILURES": str(10**6),
        },
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert (done.returncode, done.stderr) == (2, TOO_LITTLE + "\n")
