"""What happens after the last case: lost batches explained, findings shrunk, results summed up."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from kv_canary_fuzz.strategies.features.features import expected_features

from ..atomic_file import noting
from ..execution.fuzzer import Fuzzer
from ..findings.provenance import versions
from ..findings.standing import ledger_notes
from ..isolation.loading import let_go, load_isolated, load_isolated_reference
from ..targets.target import Target, TargetError
from .blocks import BlocksOf, block_trace, no_blocks
from .case_source import CaseSource
from .confidence import Bounds, failure_bounds
from .corpus import growth
from .coverage import never_together, pair_matrix, unpack
from .filing import Filing
from .run_folder import RunFolder
from .settings import Settings
from .shard import run_batches
from .source_coverage import read_source_coverage
from .summary import CaseRange, CorpusUse, Finding, LedgerNote, Summary, write_summary
from .tally import Tally
from .timing import timing_of

Tell = Callable[[str], None]

USUAL_CASES = 64
"""Cases of a batch from which a deadline is learned."""

MOST_TRACED = 5000
"""So many cases of a campaign are looked at for basic blocks that the corpus does not reach."""


def finish(
    settings: Settings,
    folder: RunFolder,
    tally: Tally,
    tell: Tell = print,
) -> Summary:
    """Blame lost batches, shrink one case per signature, and write ``run.json``.

    ``tell`` gets a line for each finding as it is shrunk and as it is written. What cannot be
    written is in the summary all the same, which names it.
    """
    lost = _run_lost_batches(settings, folder, tally)
    target = load_isolated(settings.target, settings.deadline)
    reference = load_isolated_reference(settings.reference, target.contract, settings.deadline)
    source = CaseSource(settings, folder)
    filing = Filing(settings, folder, tally, source, target, reference)
    if any("hang" in signature for signature in tally.findings):
        _learn_deadline(settings, source, target)
    findings = tuple(_filed(filing, signature, tell) for signature in sorted(tally.findings))
    notes: tuple[LedgerNote, ...] = ()
    if settings.ledger is not None:
        path = Path(settings.ledger)
        notes = ledger_notes(path, filing.ledger, target, reference, tally.findings)
    names = expected_features(settings.domain, settings.revision)
    pairs = unpack(tally.pairs)
    let_go(target, reference)
    summary = Summary(
        settings=settings,
        target=target.name,
        device=target.device,
        cases=tally.cases,
        features=dict(sorted(tally.features.items())),
        never_met=tuple(name for name in names if name not in tally.features),
        pairs=pair_matrix(pairs, names),
        never_together=never_together(pairs, names),
        bounds=_bounds(settings, source, tally),
        findings=findings,
        ledger=notes,
        corpus=_grow_corpus(settings, source, tally, tell),
        source=read_source_coverage(folder.source_counts) if settings.coverage else None,
        versions=versions(target.name),
        quarantined=tally.quarantined,
        held_back=tally.held_back,
        outgrown=tally.outgrown,
        lost=lost,
        interrupted=tally.interrupted,
        timing=timing_of(tally, datetime.now(UTC)),
    )
    return _written(folder, replace(summary, unwritten=tuple(tally.unwritten)))


def _filed(filing: Filing, signature: str, tell: Tell) -> Finding:
    """The finding, shrunk and written, and a line before and after that."""
    tell(f"shrinking {signature}")
    found = filing.file(signature)
    if found.file:
        tell(f"written {found.file} ({found.standing})")
    return found


def _written(folder: RunFolder, summary: Summary) -> Summary:
    """The summary, on disk; where it could not be written, it says so itself."""
    faults: list[str] = []
    with noting(faults):
        write_summary(folder.summary, summary)
    return replace(summary, unwritten=(*summary.unwritten, *faults))


def _run_lost_batches(settings: Settings, folder: RunFolder, tally: Tally) -> tuple[CaseRange, ...]:
    """Run again what killed workers had in flight, and add it to ``tally``; which that was.

    Where that cannot be put on disk again it is not run, and the tally says so.
    """
    lost = []
    for batch in folder.lost_batches():
        again = range(batch.first, batch.first + batch.count)
        if not tally.unwritten:
            tally.add(run_batches(settings, [again], folder, report=_ignore))
        if tally.unwritten:
            span = f"{again[0]} to {again[-1]}"
            tally.unwritten.append(f"cases {span} of a killed worker: not run again")
        else:
            lost.append(CaseRange(batch.first, batch.count))
    folder.clear_lost_batches()
    return tuple(lost)


def _learn_deadline(settings: Settings, source: CaseSource, target: Target) -> None:
    """Run the first cases again, so that a launch that sleeps is given what launches take here.

    Nothing is known of that before, and a first launch is granted ten times as much.
    """
    fuzzer = Fuzzer(target)
    for first in (0, USUAL_CASES):
        indices = range(first, min(first + USUAL_CASES, settings.cases or first + USUAL_CASES))
        if indices and target.isolation is not None:
            fuzzer.failing([source.at(index) for index in indices])
    fuzzer.close()


def _ignore(_: Tally) -> None:
    pass


def _bounds(settings: Settings, source: CaseSource, tally: Tally) -> Bounds | None:
    if tally.findings:
        return None
    replayed = [source.at(index) for index in range(-settings.replayed, 0)]
    return failure_bounds(tally.cases, tally.features, replayed)


def _grow_corpus(
    settings: Settings, source: CaseSource, tally: Tally, tell: Tell
) -> CorpusUse | None:
    """Add generated cases that met a pair or a basic block first.

    Candidates are those that met a new pair in their worker, and the first of the campaign.
    """
    if settings.corpus is None:
        return None
    reached = {index for index in tally.reached if index >= 0}
    reached.update(range(min(tally.cases - settings.replayed, MOST_TRACED)))
    made = (source.at(index) for index in sorted(reached))
    added = 0
    with noting(tally.unwritten):
        for _ in growth(Path(settings.corpus), made, _blocks_of(tell)):
            added += 1
    return CorpusUse(settings.corpus, settings.replayed, added)


def _blocks_of(tell: Tell) -> BlocksOf:
    try:
        return block_trace()
    except TargetError as error:
        tell(f"the corpus grows by pairs of features alone: {error}")
        return no_blocks
