"""One process's part of a campaign, from its first batch to its tally."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from time import monotonic, time

import torch

from kv_canary_fuzz.strategies.case import Case

from ..atomic_file import noting
from ..execution.fuzzer import Fuzzer
from ..execution.garbage import rare_collections
from ..findings.quarantine import quarantine_of
from ..isolation.loading import load_isolated, load_isolated_reference
from .blame import Blame
from .case_source import CaseSource
from .coverage import Coverage, pack
from .hold import Hold
from .run_folder import InFlight, RunFolder
from .settings import Settings, Shard
from .tally import Pace, Tally


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
    blame = Blame(settings, fuzzer, target, reference, folder, tally, hold)
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
        if failing:
            blame.sort_out(cases, indices, failing, deaths, fuzzer.earlier())
        tally.cases += len(cases)
        tally.quarantined += len(batch) - len(allowed)
        tally.held_back += len(allowed) - len(kept)
        cover(tally, coverage, cases, indices)
        tally.outgrown = fuzzer.outgrown()
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
