"""A case shrunk together with the cases that it needs beside it, to the exact minimum."""

from __future__ import annotations

from msgspec.structs import replace

from kv_canary_fuzz.harness.execution.layout import lay_out
from kv_canary_fuzz.harness.findings.company_shrinker import shrink_in_company
from kv_canary_fuzz.harness.judging.company import Company, merged, silenced, silent_case
from kv_canary_fuzz.strategies.case import Case, VerifyStep, WriteStep
from kv_canary_fuzz.strategies.prng import case_at


def launches(case: Case, kind: type) -> int:
    return sum(isinstance(step, kind) for step in case.steps)


def cases(count: int) -> tuple[Case, ...]:
    return tuple(case_at(7, index, "valid") for index in range(count))


def test_two_of_a_hundred_cases_stay_and_each_is_the_simplest(forty_entries: Case) -> None:
    company = Company(before=cases(100), after=cases(20))

    def still_fails(case: Case, company: Company) -> bool:
        writing = sum(launches(one, WriteStep) > 0 for one in company.before)
        return writing >= 2 and launches(case, VerifyStep) >= 1

    found = shrink_in_company(forty_entries, company, still_fails, budget_seconds=60)
    assert found.fixed_point
    assert found.company.after == ()
    first, second = found.company.before
    assert first == second
    assert [type(step) for step in first.steps] == [WriteStep]
    assert [type(step) for step in found.case.steps] == [VerifyStep]
    assert first.num_slots == found.case.num_slots == 1


def test_who_only_takes_room_is_silenced_and_takes_no_more_than_needed(
    forty_entries: Case,
) -> None:
    company = Company(before=cases(4), after=cases(6))
    room = 10 * 1024

    def still_fails(_: Case, company: Company) -> bool:
        return sum(lay_out(one).size for one in company.after) >= room

    found = shrink_in_company(forty_entries, company, still_fails, budget_seconds=60)
    assert found.company.before == ()
    [silent] = found.company.after
    assert silent == replace(silent, steps=())
    assert lay_out(silent).size == room
    assert found.case.steps == ()


def test_the_best_so_far_is_told_and_the_budget_holds(forty_entries: Case) -> None:
    clock = iter(range(1000))
    told: list[tuple[Case, Company]] = []
    found = shrink_in_company(
        forty_entries,
        Company(before=cases(8)),
        lambda _case, company: company.size >= 3,
        budget_seconds=4.5,
        on_better=lambda case, company: told.append((case, company)),
        clock=lambda: float(next(clock)),
    )
    assert not found.fixed_point
    assert told[-1] == (found.case, found.company)
    assert 3 <= found.company.size < 8


def test_a_silent_case_takes_exactly_the_room() -> None:
    for case in cases(30):
        quiet = silenced(case)
        assert quiet.steps == ()
        assert lay_out(quiet).size == lay_out(case).size
    loud = cases(1)
    joined = merged([silent_case(640), silent_case(1280), *loud, silent_case(704)])
    assert [lay_out(case).size for case in joined] == [1920, lay_out(loud[0]).size, 704]
