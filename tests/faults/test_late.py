"""Launches that end later than they return: what goes wrong with one is noticed at another."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from kv_canary_fuzz.harness.execution.fuzzer import Fuzzer
from kv_canary_fuzz.harness.execution.outcome import Death
from kv_canary_fuzz.harness.isolation.loading import load_isolated
from kv_canary_fuzz.harness.judging.verdict import judge
from kv_canary_fuzz.harness.targets.target import Target
from kv_canary_fuzz.strategies.case import Case, Column, VerifyStep, WriteStep

HERE = Path(__file__).parent
CASES = 12
BuildCase = Callable[[str], Case]


@pytest.fixture(scope="module")
def late() -> Iterator[Target]:
    """The late target, isolated, with a deadline of 0.3 seconds."""
    sys.path.insert(0, str(HERE))
    try:
        yield load_isolated("late_target", 0.3)
    finally:
        sys.path.remove(str(HERE))


@pytest.fixture(scope="module")
def late_case() -> BuildCase:
    """Builds: a verify, two writes of which the second asks for a fault, and a verify."""
    tokens = runpy.run_path(str(HERE / "late_target.py"))["TOKENS"]
    slots = Column(values=(1, 2), length=2)
    verify = VerifyStep(
        verify_slot_indices=slots,
        verify_expected_tokens=Column(length=2, fill=-1),
        verify_expected_positions=Column(length=2),
        verify_prev_slot_indices=Column(length=2, fill=-1),
        verify_num_valid=2,
    )

    def build(fault: str) -> Case:
        first, second = (
            WriteStep(
                write_offsets=Column(values=(0, 2), length=2),
                write_seed_slot_indices=Column(length=1, fill=-1),
                write_num_valid_reqs=1,
                input_ids=Column(values=(token, 5), length=2),
                positions=slots,
                out_cache_loc=slots,
            )
            for token in (7, tokens[fault] if fault else 8)
        )
        return Case(num_slots=4, ring_capacity=8, steps=(verify, first, second, verify))

    return build


@pytest.mark.parametrize(
    ("fault", "kind", "guilty"),
    [
        ("illegal", "illegal address", 0),
        ("illegal", "illegal address", 4),
        ("misaligned", "misaligned address", CASES - 1),
        ("lost", "device error", 6),
        ("endless", "hang", 5),
    ],
)
def test_the_guilty_launch_is_named_and_not_the_one_that_noticed(
    late: Target, late_case: BuildCase, fault: str, kind: str, guilty: int
) -> None:
    cases = [late_case(fault if number == guilty else "") for number in range(CASES)]
    fuzzer = Fuzzer(late)
    assert fuzzer.failing(cases) == [guilty]
    assert fuzzer.deaths[guilty]._replace(report=()) == Death(kind, "write")
    verdict = judge(cases[guilty], late)
    assert (verdict.step, verdict.signature) == (2, f"crash: {kind} in write")
    assert fuzzer.failing([late_case("")] * CASES) == []


def test_several_guilty_cases_are_all_blamed(late: Target, late_case: BuildCase) -> None:
    faults = {1: "illegal", 2: "misaligned", 9: "illegal"}
    fuzzer = Fuzzer(late)
    assert fuzzer.failing([late_case(faults.get(n, "")) for n in range(CASES)]) == [1, 2, 9]
    assert {at: death.signature for at, death in fuzzer.deaths.items()} == {
        1: "crash: illegal address in write",
        2: "crash: misaligned address in write",
        9: "crash: illegal address in write",
    }


def test_what_shows_only_where_nothing_waits_is_halved_down_to_its_case(
    late: Target, late_case: BuildCase
) -> None:
    cases = [late_case("hurried" if number == 7 else "") for number in range(CASES)]
    fuzzer = Fuzzer(late)
    assert fuzzer.failing(cases) == [7]
    assert fuzzer.deaths[7]._replace(report=()) == Death("illegal address", "")
    assert judge(cases[7], late).agrees


def test_a_device_that_is_slow_to_catch_up_does_not_hang(
    late: Target, late_case: BuildCase
) -> None:
    fuzzer = Fuzzer(late)
    slow = [replace(late_case("slow"), steps=late_case("slow").steps[2:3] * 2)] * 10
    assert fuzzer.failing(slow) == []
    assert fuzzer.deaths == {}
