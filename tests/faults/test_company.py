"""Cases that differ in the company of others: whom the search blames, and what it costs them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kv_canary_fuzz.harness.campaign.suspects import Named, Suspects
from kv_canary_fuzz.harness.execution.layout import lay_out
from kv_canary_fuzz.harness.findings.reproducer import Reproducer, read_reproducer
from kv_canary_fuzz.harness.findings.shrunk_file import shrink_to_file
from kv_canary_fuzz.harness.isolation.loading import disposable
from kv_canary_fuzz.harness.judging.company import Company, silent_case
from kv_canary_fuzz.harness.judging.together import judge_in_company
from kv_canary_fuzz.harness.judging.verdict import judge
from kv_canary_fuzz.harness.targets.builtin import load_target
from kv_canary_fuzz.harness.targets.target import Target
from kv_canary_fuzz.strategies.case import Case

BuildCase = Callable[[str], Case]
RECALLED = "in company: write: slot_run_counter"
ASTRAY = "write: memory of other cases"


def test_a_case_is_judged_behind_those_before_it(faulty: Target, write_of: BuildCase) -> None:
    case, other, plain = write_of("recall"), write_of("remember"), write_of("")
    verdict = judge_in_company(case, Company(before=(other, plain, other)), faulty)
    assert verdict.signature == RECALLED
    assert [m.line() for m in verdict.mismatches] == ["slot_run_counter: expected 2, found 3"]
    for company in (Company(), Company(before=(other,)), Company(after=(other, other))):
        assert judge_in_company(case, company, faulty).agrees
    assert judge(case, faulty).agrees


def test_what_a_case_writes_into_others_is_seen_where_they_are_silent(
    faulty: Target, write_of: BuildCase
) -> None:
    case, other = write_of("astray"), write_of("")
    room = Company(before=(silent_case(640),), after=(silent_case(8192),))
    verdict = judge_in_company(case, room, faulty)
    assert verdict.signature == ASTRAY
    assert "behind the memory of the case, guard bands included" in verdict.mismatches[0].place
    assert judge_in_company(other, room, faulty).agrees
    assert judge_in_company(case, Company(after=(other,) * 9), faulty).agrees


def test_a_case_without_steps_has_nothing_to_be_blamed_for(
    faulty: Target, write_of: BuildCase
) -> None:
    written = Company(before=(write_of("astray"),))
    assert judge_in_company(silent_case(8192), written, faulty).agrees


def test_the_search_names_the_case_and_those_that_it_needs(
    faulty: Target, write_of: BuildCase
) -> None:
    batch = [write_of(fault) for fault in ("", "remember", "", "remember", "", "recall", "")]
    suspects = Suspects(faulty, None)
    suspects.begin(batch, ())
    named = suspects.of(5)
    assert isinstance(named, Named)
    assert (named.case, named.position, named.verdict.signature) == (batch[5], 5, RECALLED)
    assert named.company == Company(before=(write_of("remember"),) * 2)
    again = [write_of("recall")]
    suspects.begin(again, ())
    named = suspects.of(0)
    assert isinstance(named, Named)
    assert named.company == Company(before=(write_of("remember"),) * 2)


def test_the_search_goes_back_to_what_the_process_ran_before(
    faulty: Target, write_of: BuildCase
) -> None:
    suspects = Suspects(faulty, None)
    suspects.begin([write_of(""), write_of("recall")], [write_of("remember"), write_of("")] * 3)
    named = suspects.of(1)
    assert isinstance(named, Named)
    assert named.company == Company(before=(write_of("remember"),) * 2)


@pytest.mark.parametrize("place", [0, 3, 8])
def test_the_search_blames_the_writer(faulty: Target, write_of: BuildCase, place: int) -> None:
    batch = [write_of("astray" if k == place else "") for k in range(11)]
    suspects = Suspects(faulty, None)
    suspects.begin(batch, ())
    layout = lay_out(batch[0])
    written = place + (layout.regions["canary_buf"].end + 2000) // layout.size
    assert written > place
    named = suspects.of(written)
    assert isinstance(named, Named)
    assert (named.position, named.verdict.signature) == (place, ASTRAY)
    assert named.company.silent
    assert suspects.of(written) is named


def test_what_does_not_show_again_is_said_to(faulty: Target, write_of: BuildCase) -> None:
    suspects = Suspects(faulty, None)
    suspects.begin([write_of("recall"), write_of("")], [write_of("remember")])
    said = "it agrees alone, in its batch, and behind the last 1 cases of its process"
    assert suspects.of(0) == said


def test_the_finding_is_shrunk_with_its_company(
    faulty: Target, write_of: BuildCase, tmp_path: Path
) -> None:
    path = tmp_path / "found.kvcase.json"
    company = Company(before=(write_of("remember"),) * 3, after=(write_of(""),))
    found = Reproducer(
        case=write_of("recall"), company=company, signature=RECALLED, target="x", reference="torch"
    )
    small = shrink_to_file(found, faulty, None, path, budget_seconds=4)
    assert read_reproducer(path) == small
    assert small.company.after == ()
    assert len(small.company.before) == 2
    assert small.mismatches[0] == (
        "alone it agrees; it differs with 2 other cases in its process and batch"
    )
    assert judge_in_company(small.case, small.company, faulty).signature == RECALLED


def test_a_target_without_native_code_has_fresh_processes_too() -> None:
    target = disposable(load_target("scalar"))
    assert target.isolation is not None
    assert disposable(load_target("scalar")) is target
    case = silent_case(640)
    assert judge_in_company(case, Company(before=(case,)), load_target("scalar")).agrees


def test_a_target_that_is_in_this_process_alone_runs_here(
    faulty: Target, write_of: BuildCase
) -> None:
    met: list[int] = []

    def write(**arguments: object) -> None:
        met.append(1)
        faulty.write(**arguments)

    here = replace(faulty, write=write, isolation=None)
    assert judge_in_company(write_of(""), Company(before=(write_of(""),)), here).agrees
    assert len(met) == 2
