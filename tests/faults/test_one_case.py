"""Cases that end their process: named by how and where, and nothing else is harmed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kv_canary_fuzz.harness.execution.fuzzer import Fuzzer
from kv_canary_fuzz.harness.isolation.deadline import Deadline
from kv_canary_fuzz.harness.isolation.isolation import Isolation
from kv_canary_fuzz.harness.isolation.nursery import Nursery
from kv_canary_fuzz.harness.isolation.zygote import Brief
from kv_canary_fuzz.harness.judging.verdict import judge
from kv_canary_fuzz.harness.targets.target import Target, TargetError
from kv_canary_fuzz.strategies.case import Case

BuildCase = Callable[[str], Case]
BuildBatch = Callable[..., list[Case]]

KINDS = {
    "segfault": "segfault",
    "bus error": "bus error",
    "abort": "abort",
    "spin": "hang",
    "status": "exit status 3",
    "exit": "exit",
    "allocate": "out of memory",
    "tensor": "out of memory",
    "killed": "out of memory",
    "cuda": "illegal address",
}


@pytest.mark.parametrize("fault", KINDS)
def test_a_case_that_ends_its_process_is_named_by_how(
    faulty: Target, write_of: Callable[..., Case], fault: str
) -> None:
    assert judge(write_of(fault), faulty).signature == f"crash: {KINDS[fault]} in write"
    assert judge(write_of(), faulty).agrees


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        ("abort", "abort in write; about to die: abort"),
        (
            "cuda",
            "illegal address in write; CUDA error: an illegal memory access was encountered",
        ),
    ],
)
def test_the_last_words_of_a_process_are_kept(
    faulty: Target, write_of: BuildCase, fault: str, found: str
) -> None:
    [mismatch] = judge(write_of(fault), faulty).mismatches
    assert mismatch.found == found


@pytest.mark.parametrize("fault", KINDS)
def test_only_the_guilty_case_of_a_batch_is_blamed(
    faulty: Target, batch: BuildBatch, fault: str
) -> None:
    fuzzer = Fuzzer(faulty)
    assert fuzzer.failing(batch({4: fault})) == [4]
    assert {at: death.kind for at, death in fuzzer.deaths.items()} == {4: KINDS[fault]}


def test_several_guilty_cases_of_a_batch_are_all_blamed(faulty: Target, batch: BuildBatch) -> None:
    fuzzer = Fuzzer(faulty)
    assert fuzzer.failing(batch({0: "status", 5: "segfault", 6: "abort", 11: "status"})) == [
        *(0, 5, 6, 11),
    ]
    assert {at: death.kind for at, death in fuzzer.deaths.items()} == {
        0: "exit status 3",
        5: "segfault",
        6: "abort",
        11: "exit status 3",
    }
    assert fuzzer.failing(batch()) == []
    assert fuzzer.deaths == {}


def test_a_target_of_a_gpu_is_loaded_by_each_child(
    faulty: Target, write_of: BuildCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = Path(__file__).parent
    monkeypatch.syspath_prepend(str(here))
    nursery = Nursery(Brief("faulty_target", str(here), late=True, heap=None), {})
    try:
        isolation = Isolation(nursery, Deadline(0.3, builds=True))
        target = replace(faulty, isolation=isolation)
        assert judge(write_of("cuda"), target).signature == "crash: illegal address in write"
        assert judge(write_of(""), target).agrees
    finally:
        nursery.close()


def test_a_target_that_cannot_be_loaded_there_is_one_line(
    faulty: Target, write_of: BuildCase
) -> None:
    nursery = Nursery(Brief("nowhere.to.be.found", str(Path.cwd()), late=False, heap=None), {})
    try:
        target = replace(faulty, isolation=Isolation(nursery, Deadline(0.3)))
        for _ in range(2):
            with pytest.raises(TargetError, match=r"^target 'nowhere\.to\.be\.found' cannot be "):
                judge(write_of(""), target)
    finally:
        nursery.close()


def test_a_launch_is_given_what_it_needs_and_no_more() -> None:
    deadline = Deadline(floor=2.0)
    for fresh in (True, False):
        assert not deadline.passed(busy=1.9, elapsed=500.0, fresh=fresh)
        assert deadline.passed(busy=2.1, elapsed=2.1, fresh=fresh)
        assert not deadline.passed(busy=0.0, elapsed=599.0, fresh=fresh)
        assert deadline.passed(busy=0.0, elapsed=601.0, fresh=fresh)
    deadline.learn(seconds=1.28, cases=128)
    assert deadline.passed(busy=2.1, elapsed=2.1, fresh=True)
    assert deadline.passed(busy=0.0, elapsed=61.0, fresh=True)
    for _ in range(10):
        deadline.learn(seconds=12.8, cases=128)
    assert not deadline.passed(busy=19.9, elapsed=3000.0, fresh=False)
    assert deadline.passed(busy=20.1, elapsed=20.1, fresh=False)


def test_every_process_of_a_target_that_builds_gets_time_for_it() -> None:
    deadline = Deadline(floor=2.0, builds=True)
    for _ in range(2):
        assert not deadline.passed(busy=19.9, elapsed=19.9, fresh=True)
        assert deadline.passed(busy=20.1, elapsed=20.1, fresh=True)
        assert not deadline.passed(busy=1.9, elapsed=1.9, fresh=False)
        assert deadline.passed(busy=2.1, elapsed=2.1, fresh=False)
        deadline.learn(seconds=0.001, cases=1)
