"""A finding shrunk, with the best so far in its file at any time."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from kv_canary_fuzz.strategies.case import Case

from ..isolation.loading import let_go
from ..judging.company import Company
from ..judging.repeats import FLAKY, REPEATS, judge_again, rate_text
from ..judging.together import company_line, judge_in_company
from ..judging.verdict import Verdict, lines_of
from ..targets.target import Target
from .company_shrinker import shrink_in_company
from .reproducer import Reproducer, write_reproducer
from .shrinker import shrink


def shrink_to_file(
    original: Reproducer,
    target: Target,
    reference: Target | None,
    path: Path,
    budget_seconds: float,
) -> Reproducer:
    """Shrink a finding into ``path``, as `shrunk` does. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    small, _ = shrunk(original, target, reference, path, budget_seconds)
    write_reproducer(path, small)
    return small


def shrunk(
    original: Reproducer,
    target: Target,
    reference: Target | None,
    path: Path,
    budget_seconds: float,
) -> tuple[Reproducer, Verdict]:
    """A finding shrunk, pinned to its signature, and the verdict on what comes out.

    That is still to be written. A flaky one has to fail once in all the runs that it is given. One
    that fails in company is shrunk together with that. The best so far is always in ``path``, for
    as long as that can be written to.
    """
    if original.company.size:
        return _shrunk_in_company(original, target, reference, path, budget_seconds)
    signature, wanted = original.signature, original.signature.removeprefix(FLAKY)

    def still_fails(case: Case) -> bool:
        _, verdict = judge_again(signature, case, target, reference, runs=REPEATS)
        return verdict.signature == wanted

    def keep(case: Case) -> None:
        with suppress(OSError):
            write_reproducer(path, replace(original, case=case, mismatches=()))

    result = shrink(original.case, still_fails, budget_seconds=budget_seconds, on_better=keep)
    let_go(target, reference)  # what others left behind in their processes must not tell
    case, verdict = judge_again(signature, result.case, target, reference)
    lines = lines_of(verdict)
    if signature != wanted:
        lines = (rate_text(case, target, reference), *lines)
    best = replace(original, case=case, mismatches=lines)
    return best, verdict


def _shrunk_in_company(
    original: Reproducer,
    target: Target,
    reference: Target | None,
    path: Path,
    budget_seconds: float,
) -> tuple[Reproducer, Verdict]:
    def still_fails(case: Case, company: Company) -> bool:
        return judge_in_company(case, company, target, reference).signature == original.signature

    def keep(case: Case, company: Company) -> None:
        with suppress(OSError):
            write_reproducer(path, replace(original, case=case, company=company, mismatches=()))

    result = shrink_in_company(
        original.case, original.company, still_fails, budget_seconds=budget_seconds, on_better=keep
    )
    verdict = judge_in_company(result.case, result.company, target, reference)
    lines = (company_line(result.company, verdict), *lines_of(verdict))
    best = replace(original, case=result.case, company=result.company, mismatches=lines)
    return best, verdict
