"""Campaigns with faults in them: each is blamed on its case, and every other case is counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from kv_canary_fuzz.harness.campaign.summary import Summary
from kv_canary_fuzz.strategies.case import Case, WriteStep
from kv_canary_fuzz.strategies.features.features import features

pytestmark = pytest.mark.seeded

Plan = Callable[[int], Any]

DEADLY = {
    "segfault": "segfault",
    "bus error": "bus error",
    "abort": "abort",
    "spin": "hang",
    "status": "exit status 3",
    "exit": "exit",
    "take all": "out of memory",
    "take all natively": "out of memory",
}
"""Faults that end their process, and what they are called."""

STRAY = {
    "before canary_buf": "guard before canary_buf",
    "behind canary_buf": "guard after canary_buf",
    "behind violation_ring": "guard after violation_ring",
    "behind violation_write_index": "guard after violation_write_index",
    "before slot_run_counter": "guard after violation_write_index",
    "behind kernel_run_counter": "guard after kernel_run_counter",
    "behind source": "guard after tensor",
    "behind write_offsets": "guard after plan.write_offsets",
    "behind write_num_valid_reqs": "guard after plan.write_num_valid_reqs",
    "behind input_ids": "guard after input_ids",
    "before positions": "guard after input_ids",
    "behind out_cache_loc": "guard after out_cache_loc",
}
"""Writes of one byte just outside of a tensor, and the guard band that they hit."""


def blamed(summary: Summary) -> dict[str, tuple[int, int]]:
    """By signature, how many cases and the first of them."""
    return {found.signature: (found.count, found.first_index) for found in summary.findings}


def grouped(indices: dict[str, int], names: dict[str, str], before: str) -> Any:
    """What a campaign must find where each fault is at one index."""
    expected: dict[str, tuple[int, int]] = {}
    for fault, index in indices.items():
        count, first = expected.get(before + names[fault], (0, index))
        expected[before + names[fault]] = count + 1, min(first, index)
    return expected


def assert_all_counted(summary: Summary, cases: list[Case]) -> None:
    assert summary.cases == len(cases)
    assert summary.features == dict(
        sorted(Counter(name for case in cases for name in features(case)).items())
    )


@pytest.mark.nightly
def test_each_death_is_blamed_on_its_case_and_no_case_is_lost(planned: Plan) -> None:
    plan = planned(256)
    indices = {fault: plan.put(fault) for fault in DEADLY}
    summary = plan.run(deadline=0.5, shrink_seconds=0)
    names = {fault: f"{kind} in write" for fault, kind in DEADLY.items()}
    assert blamed(summary) == grouped(indices, names, "crash: ")
    assert_all_counted(summary, plan.cases)


def plain(case: Case, step: WriteStep) -> bool:
    """A launch whose tensors are there, with guard bands around them, and no other's too."""
    there = case.ring_capacity > 0 and step.input_ids.length > 0
    return there and case.steps.count(step) == 1


def last(case: Case, step: WriteStep) -> bool:
    """A launch whose last tensor is the last of its case."""
    return plain(case, step) and case.steps[-1] == step


@pytest.mark.nightly
def test_what_is_written_or_left_behind_is_blamed_on_who_did_it(planned: Plan) -> None:
    plan = planned(384)
    plan.put("remember", among=range(128))
    then = plan.put("recall", among=range(128, 256))
    behind = plan.put("next case", last, among=range(130, 254), victim=1)
    before = plan.put("case before", plain, among=range(258, 382), victim=-1)
    fits = {"behind source": lambda case, _: len(case.real_kv_sources) == 1}
    rest = range(128, 384)
    indices = {fault: plan.put(fault, fits.get(fault, plain), among=rest) for fault in STRAY}
    summary = plan.run()
    company, astray = "in company: write: slot_run_counter", "write: memory of other cases"
    assert blamed(summary) == grouped(indices, STRAY, "write: ") | {
        company: (1, then),
        astray: (2, behind),
    }
    assert_all_counted(summary, plan.cases)
    found = {one.signature: one for one in summary.findings}
    assert found[company].lines[0].startswith("alone it agrees; it differs with ")
    assert found[company].lines[1].startswith("slot_run_counter: expected ")
    kept = found[company].reproducer
    assert kept is not None
    assert [plan.faults_of(case) for case in kept.company.cases] == [{"remember"}]
    assert found[astray].lines[0] == (
        "it writes into the memory of other cases; no other case launches anything"
    )
    assert found[astray].lines[1].startswith("byte 33 behind the memory of the case, guard bands")
    kept = found[astray].reproducer
    assert kept is not None
    assert kept.index == behind < before
    assert kept.company.silent


@pytest.mark.nightly
def test_what_fails_in_one_run_of_a_hundred_is_no_steady_finding(planned: Plan) -> None:
    plan = planned(128)
    plan.put_everywhere("one in a hundred")
    summary = plan.run()
    assert summary.findings
    for found in summary.findings:
        assert found.signature.startswith(("flaky: ", "unsteady: ")), found.signature
    assert_all_counted(summary, plan.cases)


@pytest.mark.nightly
def test_a_slow_leak_costs_nobody_his_process(planned: Plan) -> None:
    plan = planned(256)
    plan.put_everywhere(f"leak {12 * 2**20}")
    summary = plan.run()
    assert summary.findings == ()
    assert summary.outgrown > 0
    assert_all_counted(summary, plan.cases)


@pytest.mark.nightly
def test_a_launch_that_sleeps_hangs(planned: Plan) -> None:
    plan = planned(512)
    index = plan.put("sleep", among=range(384, 512))
    summary = plan.run(deadline=0.1, shrink_seconds=0)
    assert blamed(summary) == {"crash: hang in write": (1, index)}
    assert_all_counted(summary, plan.cases)


@pytest.mark.nightly
def test_a_leak_too_fast_for_one_batch_is_blamed_on_what_it_takes(planned: Plan) -> None:
    plan = planned(64)
    plan.put_everywhere(f"leak {96 * 2**20}")
    summary = plan.run()
    [found] = summary.findings
    assert found.signature == "in company: crash: out of memory in write"
    assert found.reproducer is not None
    assert len(found.reproducer.company.before) > 8
    assert_all_counted(summary, plan.cases)
