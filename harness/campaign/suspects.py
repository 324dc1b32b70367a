"""The search for what a case needs beside it to differ: its batch, or what its process ran before.

A fault that shows in company alone comes from what a launch left behind in its process, or from a
write into the memory of another case. Every trial is one batch in a fresh process.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kv_canary_fuzz.strategies.case import Case
from kv_canary_fuzz.strategies.simplify.problem import Span, remove

from ..execution.arena import lay_out_batch
from ..findings.company_shrinker import drop_others
from ..judging.company import MOST_COMPANIONS, Company, merged, silenced
from ..judging.together import differs_in_company, judge_in_company, run_together
from ..judging.verdict import Verdict
from ..targets.target import Target

RUNS = 3
"""Times in a row that a batch must show a difference which is to be put down to it."""

TRIALS, DEVICE_TRIALS = 600, 20
"""For the searches of one process of a campaign together. A trial takes about a tenth of a second,
on a device seconds, since that has its context to make."""

NOT_AGAIN = "it agrees alone, in its batch, and behind the last {} cases of its process"
NOT_TRIED = "whether its batch shows it again was not tried: the trials for that are used up"


class Named(NamedTuple):
    """A case at a position of the batch, and the company and the verdict that show it to blame."""

    case: Case
    position: int
    company: Company
    verdict: Verdict


class _UsedUp(Exception):
    """There are no trials left."""


class Suspects:
    """Looks among the cases of one batch after another for who makes a case of it differ."""

    def __init__(self, target: Target, reference: Target | None) -> None:
        self._target = target
        self._reference = reference
        self._left = TRIALS if target.device == "cpu" else DEVICE_TRIALS
        self._cases: tuple[Case, ...] = ()
        self._earlier: tuple[Case, ...] = ()
        self._written: dict[int, Named] = {}
        self._known: dict[str, Company] = {}

    def begin(self, cases: Sequence[Case], earlier: Sequence[Case]) -> None:
        """Take the batch that was run last, and what its process had run before that."""
        self._cases, self._earlier = tuple(cases), tuple(earlier)
        self._written = {}

    def of(self, position: int) -> Named | str:
        """Whom to blame for the case there, which agrees alone; or why that cannot be said."""
        if position in self._written:
            return self._written[position]
        if (known := self._as_before(position)) is not None:
            return known
        try:
            named = self._find(position)
        except _UsedUp:
            return NOT_TRIED
        if named is None:
            return NOT_AGAIN.format(len(self._earlier))
        if not named.company.silent:
            self._known[named.verdict.signature] = named.company
        return named

    def _as_before(self, position: int) -> Named | None:
        """The case behind others that made one before it differ, if it differs there alike."""
        if self._left <= 0 and self._target.device != "cpu":  # where a process takes seconds
            return None
        case = self._cases[position]
        for signature, company in self._known.items():
            verdict = judge_in_company(case, company, self._target, self._reference)
            if verdict.signature == signature:
                return Named(case, position, company, verdict)
        return None

    def _find(self, position: int) -> Named | None:
        named = self._writer(position)
        if named is not None:
            return named
        case, before = self._cases[position], self._cases[:position]
        company = Company(before, self._cases[position + 1 :])
        if self._shows(case, company):
            return self._needed(position, company)
        behind = Company((*self._earlier, *before)[-MOST_COMPANIONS:])
        if self._earlier and self._shows(case, behind):
            return self._needed(position, behind)
        return None

    def _shows(self, case: Case, company: Company) -> bool:
        return all(self._differs(case, company) for _ in range(RUNS))

    def _differs(self, case: Case, company: Company) -> bool:
        self._count_trial()
        return differs_in_company(case, company, self._target, self._reference)

    def _needed(self, position: int, company: Company) -> Named | None:
        """The case with those of its company without which it agrees."""
        case = self._cases[position]
        company = drop_others(case, company, self._differs, left=lambda: self._left)
        verdict = judge_in_company(case, company, self._target, self._reference)
        return None if verdict.agrees else Named(case, position, company, verdict)

    def _writer(self, position: int) -> Named | None:
        """The one case that writes into the place of the one there, also if that is silent."""
        others = [k for k in range(len(self._cases)) if k != position]
        if position not in self._changed(others):
            return None
        for neighbour in (position - 1, position + 1):
            if neighbour in others and position in self._changed([neighbour]):
                return self._convicted(neighbour, position)
        launching = list(others)

        def attempt(gone: list[Span]) -> bool:
            quiet = {others[k] for start, stop in gone for k in range(start, stop)}
            left = [k for k in others if k not in quiet]
            if position not in self._changed(left):
                return False
            launching[:] = left
            return True

        remove([(k, k + 1) for k in range(len(others))], attempt)
        return self._convicted(launching[0], position) if len(launching) == 1 else None

    def _convicted(self, writer: int, position: int) -> Named | None:
        """The case at ``writer``, alone among silent ones, if it writes to ``position`` every time.

        All other places that it writes to are noted.
        """
        written = [self._changed([writer]) for _ in range(RUNS)]
        if not all(position in places for places in written):
            return None
        quiet = [silenced(case) for case in self._cases]
        company = Company(merged(quiet[:writer]), merged(quiet[writer + 1 :]))
        case = self._cases[writer]
        verdict = judge_in_company(case, company, self._target, self._reference)
        if verdict.agrees:
            return None
        named = Named(case, writer, company, verdict)
        self._written |= dict.fromkeys(set.intersection(*written), named)
        return named

    def _count_trial(self) -> None:
        if self._left <= 0:
            raise _UsedUp
        self._left -= 1

    def _changed(self, launching: Sequence[int]) -> set[int]:
        """Whose bytes change of those cases that are silent, where the others launch."""
        self._count_trial()
        loud = set(launching)
        batch = lay_out_batch(
            [case if k in loud else silenced(case) for k, case in enumerate(self._cases)]
        )
        _, before, after = run_together(self._target, batch)
        touched = np.flatnonzero(before != after)
        owners = np.searchsorted(np.array(batch.bases), touched, side="right") - 1
        return set(np.unique(owners).tolist()) - loud
