"""One case as an assertion, for tests of any kind."""

from __future__ import annotations

from kv_canary_fuzz.strategies.case import Case

from ..targets.target import Target
from .verdict import Verdict, judge, lines_of


class CaseMismatch(AssertionError):
    """Two implementations differ on ``case``; the plugin shrinks it and writes a reproducer."""

    def __init__(self, case: Case, verdict: Verdict) -> None:
        super().__init__("\n".join((verdict.signature, *lines_of(verdict))))
        self.case = case
        self.verdict = verdict


def assert_agrees(case: Case, target: Target, reference: Target | None = None) -> None:
    """Raise CaseMismatch where ``target`` and the reference (None: torch) differ on ``case``."""
    verdict = judge(case, target, reference)
    if not verdict.agrees:
        raise CaseMismatch(case, verdict)


def mismatch_within(error: BaseException | None) -> CaseMismatch | None:
    """The CaseMismatch that ``error`` is, or that its exception group holds."""
    if isinstance(error, CaseMismatch):
        return error
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(mismatch_within, error.exceptions)), None)
    return None
