"""Shrinking a case that fails in the company of others: fewer of them, and simpler ones."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from kv_canary_fuzz.strategies.case import Case
from kv_canary_fuzz.strategies.simplify.order import Complexity, complexity
from kv_canary_fuzz.strategies.simplify.problem import Span, least, remove

from ..judging.company import Company, merged, silenced
from .shrinker import OutOfBudget, shrink

StillFails = Callable[[Case, Company], bool]
OnBetter = Callable[[Case, Company], None]


def _ignore(_case: Case, _company: Company) -> None:
    pass


class CompanyResult(Struct, frozen=True):
    """The simplest failing case found, with its company, and what it took; see `ShrinkResult`."""

    case: Case
    company: Company
    tries: int
    steps: int
    fixed_point: bool
    seconds: float


def shrink_in_company(
    case: Case,
    company: Company,
    still_fails: StillFails,
    *,
    budget_seconds: float,
    on_better: OnBetter = _ignore,
    clock: Callable[[], float] = time.monotonic,
) -> CompanyResult:
    """Simplify ``case``, which fails in ``company``, and the company, as `shrink` does a case.

    Others are removed first, then silenced where they only take up room, then all that is left is
    made simpler, case by case, until nothing helps or the seconds are used up.
    """
    started = clock()
    group = _Group(
        case, company, still_fails, on_better, lambda: budget_seconds - clock() + started
    )
    fixed_point = True
    try:
        before = -1
        while before != group.steps:
            before = group.steps
            for run in (_drop, _silence, _merge, _simplify_case, _simplify_others, _lower):
                run(group)
    except OutOfBudget:
        fixed_point = False
    seconds = clock() - started
    return CompanyResult(group.case, group.company, group.tries, group.steps, fixed_point, seconds)


def drop_others(
    case: Case, company: Company, still_fails: StillFails, *, left: Callable[[], float]
) -> Company:
    """The company, in which ``case`` fails, without those that are not needed for that.

    As far as it gets while there is something ``left`` of a budget.
    """
    group = _Group(case, company, still_fails, _ignore, left)
    with suppress(OutOfBudget):
        _drop(group)
    return group.company


class _Group:
    """A case and its company, and the one way of replacing them: by what still fails."""

    def __init__(
        self,
        case: Case,
        company: Company,
        still_fails: StillFails,
        on_better: OnBetter,
        left: Callable[[], float],
    ) -> None:
        self.case = case
        self.company = company
        self._still_fails = still_fails
        self._on_better = on_better
        self._left = left
        self._failed = {hash((case, company))}
        self.tries = 0
        self.steps = 0

    def attempt(self, case: Case, company: Company) -> bool:
        """Take these where they still fail. Raises OutOfBudget instead of asking too late."""
        key = hash((case, company))
        if key in self._failed:
            return False
        if self._left() <= 0:
            raise OutOfBudget
        self.tries += 1
        if not self._still_fails(case, company):
            self._failed.add(key)
            return False
        self.case, self.company = case, company
        self.steps += 1
        self._on_better(case, company)
        return True

    def simplify(self, case: Case, put: Callable[[Case], tuple[Case, Company]]) -> Case:
        """Shrink one case of the group; ``put`` gives the group with another in its place."""
        left = self._left()
        return shrink(case, lambda one: self.attempt(*put(one)), budget_seconds=left).case


def _drop(group: _Group) -> None:
    """Remove as many of the others as possible."""
    before = None
    while before != group.company.size:
        company = group.company
        before = company.size
        spans = [(k, k + 1) for k in range(before)]
        remove(spans, partial(_attempt_without, group, company))


def _attempt_without(group: _Group, company: Company, gone: list[Span]) -> bool:
    return group.attempt(group.case, company.without(_positions(gone)))


def _positions(spans: list[Span]) -> set[int]:
    return {k for start, stop in spans for k in range(start, stop)}


def _replace_some(group: _Group, other: Callable[[Case], Case]) -> None:
    """Put ``other(case)`` in the place of as many of the others as possible, where it differs."""
    company = group.company
    changed = [other(case) for case in company.cases]
    spans = [(k, k + 1) for k, case in enumerate(company.cases) if changed[k] != case]

    def attempt(gone: list[Span]) -> bool:
        chosen = _positions(gone)
        mixed = [changed[k] if k in chosen else case for k, case in enumerate(company.cases)]
        return group.attempt(group.case, company.of(mixed))

    remove(spans, attempt)


def _silence(group: _Group) -> None:
    _replace_some(group, lambda case: silenced(case) if case.steps else case)


def _merge(group: _Group) -> None:
    """Make one of silent neighbours."""
    fewer = Company(merged(group.company.before), merged(group.company.after))
    if fewer.size < group.company.size:
        group.attempt(group.case, fewer)


def _simplify_case(group: _Group) -> None:
    group.simplify(group.case, lambda case: (case, group.company))


def _simplify_others(group: _Group) -> None:
    """Each that launches anything; the simplest is tried in the place of those like it first."""
    for position in range(group.company.size):
        case = group.company.cases[position]
        if not case.steps:
            continue
        small = group.simplify(case, _in_place_of(group, position))
        _replace_some(group, partial(_simpler_of, small, complexity(small)))


def _simpler_of(small: Case, size: Complexity, case: Case) -> Case:
    return small if case.steps and complexity(case) > size else case


def _in_place_of(group: _Group, position: int) -> Callable[[Case], tuple[Case, Company]]:
    def put(case: Case) -> tuple[Case, Company]:
        cases = list(group.company.cases)
        cases[position] = case
        return group.case, group.company.of(cases)

    return put


def _lower(group: _Group) -> None:
    """Let silent cases take less room."""
    for position, case in enumerate(group.company.cases):
        if not case.steps:
            _lower_one(group, position, case)


def _lower_one(group: _Group, position: int, case: Case) -> None:
    put = _in_place_of(group, position)
    least(1, case.num_slots, lambda n: group.attempt(*put(replace(case, num_slots=n))))
