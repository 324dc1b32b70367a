"""One process's part of a campaign, from its first batch to its tally."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from time import monotonic, time

import torch

from kv_canary_fuzz.strategies.case import Case

from ..atomic_file import noting
from ..execution.fuzzer import Fuzzer
from ..execution.garbage import rare_collections
from ..execution.outcome import CRASH, Death
from ..findings.provenance import describe
from ..findings.quarantine import quarantine_of
from ..isolation.loading import load_isolated, load_isolated_reference
from ..judging.plainest import plainest
from ..judging.repeats import FLAKY, REPEATS
from ..judging.verdict import Verdict, judge, lines_of
from ..targets.target import Target
from .case_source import CaseSource
from .coverage import Coverage, pack
from .hold import Hold
from .run_folder import InFlight, RunFolder
from .settings import Settings, Shard
from .tally import Pace, Tally

UNSTEADY = "unsteady: differs in a batch, agrees alone"
"""The signature of a case whose batch differed and that does not differ by itself."""

SURE = 3
"""Cases of a signature that are run again and again; those behind them fail twice to be counted."""


@rare_collections()
def run_batches(
    settings: Settings,
    batches: Iterable[range],
    folder: RunFolder,
    *,
    report: Callable[[Tally], None],
    stop: Callable[[], bool] = lambda: False,
) -> Tally:
    """Fuzz the cases of ``batches`` until the time is over or ``stop`` says so.

    Every batch is on disk before it is launched; every first case of a signature is written as
    soon as it is found. Where that fails no further batch is run, and the tally says why.
    ``report`` is called after each batch with the tally so far.
    """
    torch.set_num_threads(1)
    target = load_isolated(settings.target, settings.deadline)
    reference = load_isolated_reference(settings.reference, target.contract, settings.deadline)
    fuzzer = Fuzzer(target, reference)
    source = CaseSource(settings, folder)
    coverage = Coverage()
    quarantine = quarantine_of(settings.ledger, target.name)
    hold = Hold(folder, target)
    tally = Tally(paces=[Pace()])
    started = monotonic()
    for batch in batches:
        if stop() or _is_over(settings, monotonic() - started):
            break
        fuzzer.prepare()
        with noting(tally.unwritten):
            folder.mark_in_flight(InFlight(batch.start, len(batch)))
        if tally.unwritten:
            break
        cases = [source.at(index) for index in batch]
        allowed = quarantine.launched(cases)
        hold.look()
        kept = [k for k in allowed if not hold.keeps(cases[k])]
        cases, indices = [cases[k] for k in kept], [batch[k] for k in kept]
        failing, deaths = fuzzer.failing(cases), fuzzer.deaths
        for position in failing:
            case, index = cases[position], indices[position]
            death = deaths.get(position)
            if death is not None and death.signature in tally.findings:
                tally.sight(death.signature, index)
                continue
            sure = {name for name, seen in tally.findings.items() if seen.count >= SURE}
            signature, verdict, plain = diagnosis(case, death, fuzzer, target, reference, sure)
            if signature not in tally.findings:
                with noting(tally.unwritten):
                    folder.record(describe(settings, plain, index, signature, lines_of(verdict)))
            tally.sight(signature, index)
        tally.cases += len(cases)
        tally.quarantined += len(batch) - len(allowed)
        tally.held_back += len(allowed) - len(kept)
        cover(tally, coverage, cases, indices)
        tally.last = batch.start
        tally.seconds = monotonic() - started
        tally.paces[0].add(len(cases), time())
        report(tally)
    fuzzer.close()
    with noting(tally.unwritten):
        folder.clear_in_flight()
    return tally


def shard_batches(settings: Settings, shard: Shard) -> Iterator[range]:
    """The case indices of each batch of a shard; endless where the campaign is bounded by time."""
    number = shard.index
    while batch := settings.batch_range(number):
        yield batch
        number += shard.of


def cover(tally: Tally, coverage: Coverage, cases: Sequence[Case], batch: Sequence[int]) -> None:
    """Count the features of a batch, and keep the indices of cases that met a new pair."""
    counts, new = coverage.add(cases)
    tally.count_features(counts)
    if new:
        tally.pairs = pack(coverage.pairs)
        tally.reached += [batch[position] for position in new]


def _is_over(settings: Settings, elapsed: float) -> bool:
    return settings.seconds is not None and elapsed >= settings.seconds


def diagnosis(
    case: Case,
    death: Death | None,
    fuzzer: Fuzzer,
    target: Target,
    reference: Target | None,
    sure: Collection[str] = (),
) -> tuple[str, Verdict, Case]:
    """The signature of a case that differed in a batch, and a verdict on it, which may agree.

    With them the case to keep: its plainest form where it fails every time.

    It is judged alone, and run again and again, as it is, under its own schedule: what fails every
    time has the verdict's signature, what fails sometimes is flaky. A case that died alone, in the
    batch and when it was judged, is not run any more, nor is one with a signature of ``sure``.
    """
    verdict = judge(case, target, reference)
    plain_case, plain = plainest(case, verdict, target, reference)
    if verdict.signature.startswith(CRASH) or plain.signature in sure:
        return plain.signature, plain, plain_case
    failing = fuzzer.failing([case] * REPEATS)
    if not verdict.agrees and len(failing) == REPEATS:
        return plain.signature, plain, plain_case
    for _ in failing:
        if verdict.agrees:
            verdict = judge(case, target, reference)
    if not verdict.agrees:
        return FLAKY + verdict.signature, verdict, case
    return f"{UNSTEADY}: {death.signature}" if death else UNSTEADY, verdict, case
