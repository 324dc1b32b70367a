"""The pytest plugin, in pytest runs of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

CAMPAIGN = """
def test_campaign(kv_shard):
    kv_shard.run()
"""

HYPOTHESIS = """
from hypothesis import given, settings
from kv_canary_fuzz.strategies.hypothesis_driver import cases


@settings(database=None, deadline=None, max_examples=200, derandomize=True)
@given(case=cases("valid"))
def test_mine(kv_agrees, case):
    kv_agrees(case)
"""


@pytest.fixture
def project(pytester: pytest.Pytester, miscounting: str) -> pytest.Pytester:
    pytester.makepyfile(broken=miscounting, test_campaign=CAMPAIGN)
    return pytester


def run(project: pytest.Pytester, *words: str) -> pytest.RunResult:
    return project.runpytest_subprocess("-p", "no:cacheprovider", *words, timeout=120)


def summary(project: pytest.Pytester, folder: str) -> dict[str, object]:
    found: dict[str, object] = json.loads((project.path / folder / "run.json").read_text())
    found.pop("timing")
    return found


def test_a_clean_campaign_passes(project: pytest.Pytester) -> None:
    result = run(project, "--kv-target=scalar", "--kv-cases=300", "--kv-seed=4", "--kv-out=run")
    result.assert_outcomes(passed=8)
    result.stdout.fnmatch_lines(
        ["scalar against torch, domain all, seed 4: 300 cases*", "no findings;*", "run folder:*run"]
    )


def test_workers_do_not_change_the_result(project: pytest.Pytester) -> None:
    options = ("--kv-target=broken", "--kv-cases=1024", "--kv-seed=4")
    alone = run(project, *options, "--kv-out=run", "-n0", "test_campaign.py")
    (project.path / "run").rename(project.path / "alone")
    spread = run(project, *options, "--kv-out=run", "-n2", "test_campaign.py")
    assert alone.parseoutcomes() == spread.parseoutcomes()
    assert summary(project, "alone") == summary(project, "run")
    spread.stdout.fnmatch_lines(
        [
            "*write: slot_run_counter: * cases, first at index *",
            "*kv-canary-fuzz replay *shrunk.kvcase.json",
            "*broken stands alone*",
        ]
    )


def test_every_worker_collects_the_same(project: pytest.Pytester) -> None:
    result = run(project, "--collect-only", "-q", "test_campaign.py")
    result.stdout.fnmatch_lines([f"test_campaign.py::test_campaign?shard-{n}?" for n in range(8)])


def test_a_failing_hypothesis_test_leaves_a_shrunk_reproducer(project: pytest.Pytester) -> None:
    project.makepyfile(test_mine=HYPOTHESIS)
    result = run(project, "--kv-target=broken", "--kv-out=run", "test_mine.py")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*replay: pytest *shrunk.kvcase.json*"])
    [file] = (project.path / "run" / "findings").glob("*/shrunk.kvcase.json")
    assert file.stat().st_size <= 4096
    assert json.loads(file.read_text())["signature"] == "write: slot_run_counter"


def test_reproducers_are_test_items(project: pytest.Pytester) -> None:
    run(
        *(project, "--kv-target=broken", "--kv-cases=400", "--kv-seed=4", "--kv-out=run"),
        "test_campaign.py",
    )
    [file] = (project.path / "run" / "findings").glob("*/shrunk.kvcase.json")
    still = run(project, str(file))
    still.assert_outcomes(failed=1)
    still.stdout.fnmatch_lines(["*slot_run_counter: expected 0, found 1*"])
    folder = run(project, str(file.parent), "--kv-target=scalar")
    folder.assert_outcomes(passed=len(list(file.parent.glob("*.kvcase.json"))))


def test_a_damaged_reproducer_ends_the_run(project: pytest.Pytester) -> None:
    path = Path(project.path / "damaged.kvcase.json")
    path.write_text('{"format": "kv-canary-fuzz case", "version": 7}')
    result = run(project, str(path))
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*damaged.kvcase.json: *version*"])
    assert not (project.path / "reports").exists()


def test_an_unknown_target_is_one_line(project: pytest.Pytester) -> None:
    result = run(project, "--kv-target=nowhere", "test_campaign.py")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: target 'nowhere' cannot be imported: *emulated, cuda*"])
