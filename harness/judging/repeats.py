"""Cases that do not fail every time: run again and again, and how often they fail."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from kv_canary_fuzz.strategies.case import Case

from ..targets.target import Target
from .company import ALONE, Company
from .together import judge_in_company
from .verdict import Verdict, judge

REPEATS = 10
"""Runs that tell a case which fails every time from one that fails sometimes."""

MOST_RUNS = 400
"""Runs that a flaky case gets to fail in once: one that fails in 1 % of them does in 98 of 100."""

_NEXT_SCHEDULE = 2**32
FLAKY = "flaky: "
"""How the signature of a case that fails sometimes begins, before what it shows then."""


def repeats(case: Case, target: Target, runs: int = REPEATS) -> Iterator[Case]:
    """The case as it is put for each of its ``runs``: under its own schedule, then under others.

    The low bits of a seed stay: by them a target may choose more than an order, as the emulated
    build chooses its geometry, and what fails on one of these every time is not flaky. A target
    that cannot choose a schedule is given the same case every time.
    """
    for number in range(runs):
        step = number * _NEXT_SCHEDULE if target.set_schedule else 0
        yield replace(case, schedule=(case.schedule + step) % 2**64)


def judge_again(
    signature: str,
    case: Case,
    target: Target,
    reference: Target | None,
    company: Company = ALONE,
    runs: int = MOST_RUNS,
) -> tuple[Case, Verdict]:
    """Judge a case that showed ``signature``: once, or where it is flaky until it fails.

    A flaky one is run ``runs`` times at most.

    One that showed it in ``company`` is judged there. The verdict is on the case that comes with
    it, which may be under another schedule.
    """
    if company.size:
        return case, judge_in_company(case, company, target, reference)
    verdict = judge(case, target, reference)
    if not signature.startswith(FLAKY):
        return case, verdict
    wanted = signature.removeprefix(FLAKY)
    for one in repeats(case, target, runs):
        seen = judge(one, target, reference)
        if seen.signature == wanted:
            return one, seen
    return case, verdict


def rate_text(case: Case, target: Target, reference: Target | None) -> str:
    """How often the case fails in REPEATS runs, or in as many as it takes to fail once.

    Whatever it shows then.
    """
    fails = runs = 0
    for one in repeats(case, target, MOST_RUNS):
        if runs >= REPEATS and fails:
            break
        runs += 1
        fails += not judge(one, target, reference).agrees
    schedules = ", each under a schedule of its own" if target.set_schedule else ""
    return f"fails in {fails} of {runs} runs{schedules}"
