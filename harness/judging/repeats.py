"""Cases that do not fail every time: run again and again, and how often they fail."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from kv_canary_fuzz.strategies.case import Case

from ..targets.target import Target
from .verdict import Verdict, judge

REPEATS = 10
FLAKY = "flaky: "
"""How the signature of a case that fails sometimes begins, before what it shows then."""


def repeats(case: Case, target: Target) -> Iterator[Case]:
    """The case as it is put for each of its runs: under its own schedule first, then under others.

    A target that cannot choose a schedule is given the same case every time.
    """
    for number in range(REPEATS):
        schedule = (case.schedule + number) % 2**64 if target.set_schedule else case.schedule
        yield replace(case, schedule=schedule)


def judge_again(
    signature: str, case: Case, target: Target, reference: Target | None
) -> tuple[Case, Verdict]:
    """Judge a case that showed ``signature``: once, or where it is flaky until it fails.

    The verdict is on the case that comes with it, which may be under another schedule.
    """
    verdict = judge(case, target, reference)
    if not signature.startswith(FLAKY):
        return case, verdict
    wanted = signature.removeprefix(FLAKY)
    for one in repeats(case, target):
        seen = judge(one, target, reference)
        if seen.signature == wanted:
            return one, seen
    return case, verdict


def rate_text(case: Case, target: Target, reference: Target | None) -> str:
    """How often the case fails, whatever it shows then."""
    verdicts = [judge(one, target, reference) for one in repeats(case, target)]
    fails = sum(not verdict.agrees for verdict in verdicts)
    schedules = ", each under a schedule of its own" if target.set_schedule else ""
    return f"fails in {fails} of {REPEATS} runs{schedules}"
