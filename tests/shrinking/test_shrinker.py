"""The shrinker's budget, gate and errors."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kv_canary_fuzz.harness.findings.shrinker import shrink
from kv_canary_fuzz.strategies.case import Case, Column, Fault, VerifyStep, WriteStep
from kv_canary_fuzz.strategies.classify import Domain, classify


class Clock:
    """A clock that ticks once for every predicate call."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def tick(self, _: Case) -> bool:
        self.now += 1
        return True


def test_budget_of_nothing_asks_nothing(forty_entries: Case) -> None:
    clock = Clock()
    result = shrink(forty_entries, clock.tick, budget_seconds=0, clock=clock)
    assert (result.case, result.tries, result.fixed_point) == (forty_entries, 0, False)


def test_budget_ends_the_search_with_the_best_so_far(forty_entries: Case) -> None:
    clock, kept = Clock(), []
    result = shrink(forty_entries, clock.tick, budget_seconds=2, on_better=kept.append, clock=clock)
    assert (result.tries, result.seconds, result.fixed_point) == (2, 2.0, False)
    assert result.case == kept[-1] != forty_entries


def test_enough_budget_reaches_the_fixed_point(forty_entries: Case) -> None:
    clock = Clock()
    result = shrink(forty_entries, clock.tick, budget_seconds=100, clock=clock)
    assert (result.case, result.fixed_point) == (Case(num_slots=1), True)


def test_what_the_predicate_raises_is_passed_on(forty_entries: Case) -> None:
    def interrupted(_: Case) -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        shrink(forty_entries, interrupted, budget_seconds=10)


def test_valid_cases_stay_valid(forty_entries: Case) -> None:
    seen = set()

    def predicate(case: Case) -> bool:
        seen.add(classify(case))
        return len(seen) % 2 == 1

    shrink(forty_entries, predicate, budget_seconds=1000)
    assert seen == {Domain.VALID}


def test_a_hardened_case_may_become_valid(forty_entries: Case) -> None:
    case = replace(forty_entries, violation_write_index=-5)
    assert classify(case) is Domain.HARDENED
    result = shrink(case, lambda c: len(c.steps) == 3, budget_seconds=1000)
    assert classify(result.case) is Domain.VALID


def test_a_refused_case_keeps_what_its_signature_needs(forty_entries: Case) -> None:
    verify = forty_entries.steps[2]
    assert isinstance(verify, VerifyStep)
    faults = (Fault(kind="dtype", tensor="plan.enable"), Fault(kind="hash_mode", amount=7))
    case = replace(forty_entries, steps=(replace(verify, faults=faults),))

    def predicate(candidate: Case) -> bool:
        return classify(candidate) is Domain.REFUSED

    result = shrink(case, predicate, budget_seconds=1000)
    (step,) = result.case.steps
    assert isinstance(step, VerifyStep)
    assert step.faults == (Fault(kind="dtype", tensor="canary_buf"),)


def test_plan_and_inputs_shrink_together(forty_entries: Case) -> None:
    """A plan that points past its inputs is never tried, whatever is cut."""

    def predicate(case: Case) -> bool:
        for step in case.steps:
            if isinstance(step, WriteStep):
                offsets = step.write_offsets
                ends = (*offsets.values, *offsets.tail)[: step.write_num_valid_reqs + 1]
                assert max(ends, default=0) <= step.input_ids.length == step.positions.length
        return sum(isinstance(step, WriteStep) for step in case.steps) == 1

    result = shrink(forty_entries, predicate, budget_seconds=1000)
    assert result.fixed_point
    assert result.case.steps[0] == WriteStep(
        write_offsets=Column(length=2),
        write_seed_slot_indices=Column(values=(-1,), length=1),
        write_num_valid_reqs=0,
        input_ids=Column(),
        positions=Column(),
        out_cache_loc=Column(),
    )
