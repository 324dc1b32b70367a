"""A failing case with as few open or illegal inputs as show the same kind of difference."""

from __future__ import annotations

from msgspec.structs import replace

from kv_canary_fuzz.strategies.case import Case
from kv_canary_fuzz.strategies.circumstances import circumstances, plainer
from kv_canary_fuzz.strategies.classify import Domain, MalformedCase, check_case, classify

from ..execution.outcome import CRASH
from ..targets.target import Target
from .verdict import Verdict, judge

MOST_TRIES = 40
"""Candidates that are judged for one case."""

MOST_DEATHS = 6
"""The same of a case that kills its process, and so costs another one each time."""


def plainest(
    case: Case, verdict: Verdict, target: Target, reference: Target | None
) -> tuple[Case, Verdict]:
    """``case``, whose verdict is given, as plain as it can be made, and the verdict on that.

    Only where the signature names circumstances is there anything to do. A pure function of the
    case, as far as the target is one.
    """
    if not verdict.circumstances:
        return case, verdict
    case = replace(case, steps=case.steps[: verdict.step + 1])
    most = MOST_DEATHS if verdict.kind.startswith(CRASH) else MOST_TRIES
    tries = 0
    progress = True
    while progress and tries < most:
        progress = False
        for candidate in filter(_legal, plainer(case)):
            if not set(_all_of(candidate)) < set(_all_of(case)):
                continue
            tries += 1
            seen = judge(candidate, target, reference)
            if seen.kind == verdict.kind and set(seen.circumstances) < set(verdict.circumstances):
                case, verdict, progress = candidate, seen, True
                break
    return replace(case, steps=case.steps[: verdict.step + 1]), verdict


def _all_of(case: Case) -> tuple[str, ...]:
    return circumstances(case, len(case.steps) - 1)


def _legal(case: Case) -> bool:
    try:
        check_case(case)
    except MalformedCase:
        return False
    return classify(case) is not Domain.UNDEFINED
