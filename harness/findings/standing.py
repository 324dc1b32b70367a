"""How a run's findings stand to the ledger: new, known, back again, or fixed."""

from __future__ import annotations

from collections.abc import Collection
from datetime import date
from pathlib import Path

from msgspec.structs import replace

from kv_canary_fuzz.strategies.case import Case
from kv_canary_fuzz.strategies.classify import classify

from ..atomic_file import sweep
from ..campaign.blame import UNSTEADY
from ..campaign.run_folder import CASE_SUFFIX, slug
from ..campaign.summary import Finding, LedgerNote, Outcome, Standing, Summary
from ..execution.outcome import CRASH
from ..judging.repeats import FLAKY, judge_again
from ..targets.target import Target
from .ledger import Ledger, LedgerEntry, State, read_ledger, write_ledger
from .reproducer import read_reproducer, write_reproducer

REPRODUCERS = "reproducers"
"""The folder beside a ledger that holds the reproducers of its entries."""


def standing_of(ledger: Ledger, target: Target, signature: str, case: Case) -> Standing:
    """How a finding stands whose smallest case is ``case``."""
    if ledger.knows(target.name, signature):
        return "known"
    if ledger.entry(target.name, signature) is not None:
        return "back"
    return "new" if classify(case) in target.domains else "undefined"


def ledger_notes(
    path: Path, ledger: Ledger, target: Target, reference: Target | None, met: Collection[str]
) -> tuple[LedgerNote, ...]:
    """What became of each known finding of ``target``; those not met are tried again."""
    notes = []
    for entry in ledger.findings:
        if entry.target == target.name and entry.state != "fixed":
            outcome: Outcome = "met"
            if entry.signature not in met:
                outcome = _try_again(path.parent, entry, target, reference)
            notes.append(LedgerNote(signature=entry.signature, title=entry.title, outcome=outcome))
    return tuple(notes)


def _try_again(
    folder: Path, entry: LedgerEntry, target: Target, reference: Target | None
) -> Outcome:
    """Replay an entry's reproducer, but not what kills a process or did not show again."""
    alone = not entry.signature.startswith((CRASH, UNSTEADY))
    if not alone or entry.state == "quarantined" or not entry.reproducer:
        return "not tried"
    found = read_reproducer(folder / entry.reproducer)
    _, verdict = judge_again(found.signature, found.case, target, reference, found.company)
    flaky = entry.signature.startswith(FLAKY)
    same = not verdict.agrees if flaky else verdict.signature == entry.signature
    return "still there" if same else "fixed"


def update_ledger(path: Path, summary: Summary, today: date) -> list[str]:
    """Add what ``summary`` found anew, with its reproducer, and mark what it found fixed.

    A line for each change. The file is made where it is missing. Raises LedgerError and OSError.
    """
    ledger = read_ledger(path) if path.exists() else Ledger()
    lines = []
    for finding in (finding for finding in summary.findings if finding.standing != "known"):
        ledger = ledger.with_entry(_entry(path.parent, ledger, summary, finding, today))
        lines.append(f"{finding.standing}: {finding.signature}")
    for note in summary.ledger:
        entry = ledger.entry(summary.target, note.signature)
        if note.outcome == "fixed" and entry is not None:
            ledger = ledger.with_entry(replace(entry, state="fixed", until=str(today)))
            lines.append(f"fixed: {note.signature}")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_ledger(path, ledger)
    for folder in (path.parent, path.parent / REPRODUCERS):
        sweep(folder)
    return lines


def _entry(
    folder: Path, ledger: Ledger, summary: Summary, finding: Finding, today: date
) -> LedgerEntry:
    """The entry for a finding that is new, or that came back: then what people wrote stays.

    What ends its process is quarantined.
    """
    kept = _keep_reproducer(folder, summary.target, finding)
    state: State = "quarantined" if finding.signature.startswith(CRASH) else "tolerated"
    old = ledger.entry(summary.target, finding.signature)
    if old is not None:
        return replace(old, state=state, reproducer=kept, since=str(today), until="")
    headline = finding.explanation.headline if finding.explanation else finding.signature
    return LedgerEntry(
        signature=finding.signature,
        target=summary.target,
        state=state,
        title=headline,
        what=finding.lines[0] if finding.lines else "",
        version=summary.versions.get("sglang", summary.versions.get("kv-canary-fuzz", "")),
        reproducer=kept,
        since=str(today),
    )


def _keep_reproducer(folder: Path, target: str, finding: Finding) -> str:
    """Copy a finding's reproducer beside the ledger; its path from there."""
    if finding.reproducer is None:
        return ""
    kept = f"{REPRODUCERS}/{slug(f'{target} {finding.signature}')}{CASE_SUFFIX}"
    write_reproducer(folder / kept, finding.reproducer)
    return kept
