"""What happens after the last case: lost batches explained, findings shrunk, results summed up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec.structs import replace

from kv_canary_fuzz.strategies.case import Case
from kv_canary_fuzz.strategies.features import ALL_FEATURES
from kv_canary_fuzz.strategies.prng import case_at

from .culprits import CRASH, explain_lost_batch
from .opinion import who_stands_alone
from .provenance import describe, versions
from .reproducer import Reproducer, write_reproducer
from .run_folder import RunFolder
from .settings import Settings
from .shard import UNSTEADY
from .shrinker import shrink
from .summary import Finding, Summary
from .tally import Tally
from .target import Target
from .targets import load_reference, load_target
from .verdict import judge, lines_of


def finish(
    settings: Settings, folder: RunFolder, tally: Tally, tell: Callable[[str], None] = print
) -> Summary:
    """Blame lost batches, shrink one case per signature, and write ``summary.json``.

    ``tell`` gets a line for each finding as it is shrunk.
    """
    for batch in folder.lost_batches():
        tally.add(explain_lost_batch(settings, folder, batch))
    folder.clear_lost_batches()
    findings = []
    if tally.findings:
        target, reference = load_target(settings.target), load_reference(settings.reference)
        for signature in sorted(tally.findings):
            tell(f"shrinking {signature}")
            findings.append(_finding(settings, folder, tally, signature, target, reference))
    summary = Summary(
        settings=settings,
        cases=tally.cases,
        core_seconds=tally.seconds,
        features=dict(sorted(tally.features.items())),
        never_met=tuple(f for f in ALL_FEATURES[settings.domain] if f not in tally.features),
        findings=tuple(findings),
        versions=versions(),
    )
    folder.root.mkdir(parents=True, exist_ok=True)
    folder.summary.write_bytes(msgspec.json.format(msgspec.json.encode(summary)))
    return summary


def _finding(
    settings: Settings,
    folder: RunFolder,
    tally: Tally,
    signature: str,
    target: Target,
    reference: Target | None,
) -> Finding:
    """Shrink the first case of ``signature`` and write it; crashes are kept as they were found."""
    sighting = tally.findings[signature]
    case = case_at(settings.seed, sighting.first_index, settings.domain)
    original = describe(settings, case, sighting.first_index, signature, ())
    finding = Finding(
        signature=signature,
        count=sighting.count,
        first_index=sighting.first_index,
        file="",
    )
    if signature == UNSTEADY or signature.startswith(CRASH):
        return replace(finding, file=str(folder.record(original)))
    path = folder.reproducer_path(signature)
    small = shrink_to_file(original, target, reference, path, settings.shrink_seconds)
    alone = who_stands_alone(small.case, target, reference)
    return replace(finding, file=str(path), lines=small.mismatches, alone=alone)


def shrink_to_file(
    original: Reproducer,
    target: Target,
    reference: Target | None,
    path: Path,
    budget_seconds: float,
) -> Reproducer:
    """Shrink a finding, pinned to its signature; the best so far is always in ``path``."""
    path.parent.mkdir(parents=True, exist_ok=True)

    def still_fails(case: Case) -> bool:
        return judge(case, target, reference).signature == original.signature

    def keep(case: Case) -> None:
        write_reproducer(path, replace(original, case=case, mismatches=()))

    result = shrink(original.case, still_fails, budget_seconds=budget_seconds, on_better=keep)
    lines = lines_of(judge(result.case, target, reference))
    best = replace(original, case=result.case, mismatches=lines)
    write_reproducer(path, best)
    return best
