"""Cases that fail sometimes: told apart from those that always do, and shrunk all the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kv_canary_fuzz.harness.campaign.blame import UNSTEADY, diagnosis
from kv_canary_fuzz.harness.execution.fuzzer import Fuzzer
from kv_canary_fuzz.harness.findings.reproducer import Reproducer, read_reproducer
from kv_canary_fuzz.harness.findings.shrunk_file import shrink_to_file
from kv_canary_fuzz.harness.judging.repeats import judge_again, repeats
from kv_canary_fuzz.harness.judging.verdict import judge
from kv_canary_fuzz.harness.targets.target import Target
from kv_canary_fuzz.strategies.case import Case

BuildCase = Callable[[str], Case]


@pytest.mark.parametrize(
    ("fault", "signature"),
    [
        ("miscount", "write: slot_run_counter"),
        ("sometimes", "flaky: write: slot_run_counter"),
        ("rarely", UNSTEADY),
        ("abort", "crash: abort in write"),
    ],
)
def test_a_case_is_flaky_where_it_does_not_fail_every_time(
    faulty: Target, write_of: BuildCase, fault: str, signature: str
) -> None:
    assert faulty.isolation is not None
    faulty.isolation.let_go()
    found, *_ = diagnosis(write_of(fault), None, Fuzzer(faulty), faulty, None)
    assert found == signature


def test_a_flaky_finding_is_shrunk_and_says_how_often_it_fails(
    faulty: Target, write_of: BuildCase, tmp_path: Path
) -> None:
    case = write_of("sometimes")
    found = Reproducer(
        case=case, signature="flaky: write: slot_run_counter", target="faulty", reference="torch"
    )
    path = tmp_path / "flaky.kvcase.json"
    small = shrink_to_file(found, faulty, None, path, budget_seconds=20)
    assert read_reproducer(path) == small
    assert small.mismatches[0] in {f"fails in {times} of 10 runs" for times in (3, 4)}
    assert small.mismatches[1].startswith("slot_run_counter: expected ")
    assert len(small.case.steps) == 1
    _, verdict = judge_again(small.signature, small.case, faulty, None)
    assert verdict.signature == "write: slot_run_counter"


def test_a_target_with_schedules_is_run_under_ten_of_them(faulty: Target) -> None:
    case = Case(num_slots=1, schedule=2**64 - 2)
    assert [one.schedule for one in repeats(case, faulty)] == [case.schedule] * 10
    scheduled = replace(faulty, set_schedule=lambda _: None)
    again = [one.schedule for one in repeats(case, scheduled)]
    assert again == [2**64 - 2, *((n << 32) - 2 for n in range(1, 10))]


def test_a_steady_finding_is_judged_once(faulty: Target, write_of: BuildCase) -> None:
    case = write_of("miscount")
    one, verdict = judge_again("write: slot_run_counter", case, faulty, None)
    assert one == case
    assert verdict.mismatches == judge(case, faulty).mismatches
