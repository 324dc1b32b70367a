"""A campaign cut into tests: shards that any number of workers run to the same end."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from kv_canary_fuzz.reports.publish import publish
from kv_canary_fuzz.reports.summary_text import summary_lines
from kv_canary_fuzz.strategies.case import Case
from kv_canary_fuzz.strategies.classify import classify

from ..atomic_file import fault_of, noting, write_atomically
from ..campaign.campaign import default_folder, settled
from ..campaign.case_source import CaseSource
from ..campaign.finish import Tell, finish
from ..campaign.profiles import Profile, kept_cases, prepared, settings_for
from ..campaign.run_folder import RunFolder
from ..campaign.settings import DomainName, Settings, Shard
from ..campaign.shard import run_batches, shard_batches
from ..campaign.tally import Tally
from ..campaign.tenancy import FolderTaken, Tenancy, new_run, run_in
from ..findings.ledger import Ledger, read_ledger
from ..findings.provenance import describe
from ..findings.shrunk_file import shrink_to_file
from ..isolation.loading import load_isolated, load_isolated_reference
from ..judging.verdict import Verdict, lines_of
from ..targets.builtin import load_target
from ..targets.devices import use_gpu_of, xdist_worker

SHARDS = 8
PROGRESS_SECONDS = 1.0

_TENANCIES: dict[str, Tenancy] = {}
"""The runs in whose folders this process is."""


class CampaignPlan(Struct, frozen=True):
    """What every worker of one pytest run must agree on.

    ``run`` names the run among those in its folder (see `campaign.tenancy`).
    """

    settings: Settings
    root: str
    run: str = msgspec.field(default_factory=new_run)

    @classmethod
    def of(cls, option: Any) -> CampaignPlan:
        """The plan that the command line asks for, with what it names read and checked.

        Its folder is entered where something of the run belongs there from now on. Raises
        CorpusError, LedgerError and ReproducerError, FolderTaken and OSError.
        """
        settings = settings_for(
            Profile(option.kv_profile),
            target=option.kv_target,
            reference=option.kv_reference,
            domain=DomainName(option.kv_domain),
            seed=option.kv_seed,
            cases=option.kv_cases,
            seconds=option.kv_seconds,
            shrink_seconds=option.kv_shrink_seconds,
            corpus=option.kv_corpus,
            ledger=option.kv_ledger,
            deadline=option.kv_deadline,
            sglang=option.kv_sglang,
            patch=option.kv_patch,
            third=option.kv_third,
            coverage=option.kv_coverage,
        )
        root = Path(option.kv_out or default_folder(settings.seed)).absolute()
        corpus = kept_cases(settings)
        plan = cls(settings, str(root))
        if settings.corpus is not None or settings.coverage:
            plan.enter()
        return msgspec.structs.replace(plan, settings=prepared(settings, plan.folder, corpus))

    @property
    def folder(self) -> RunFolder:
        return RunFolder(Path(self.root))

    @property
    def is_in(self) -> bool:
        """Whether what is in the folder is this run's."""
        return run_in(self.folder) == self.run

    def enter(self) -> None:
        """Be in the folder until `leave`. Raises FolderTaken, and OSError where it is read-only."""
        if self.run not in _TENANCIES:
            _TENANCIES[self.run] = Tenancy(self.folder, self.run)

    def leave(self) -> None:
        if self.run in _TENANCIES:
            _TENANCIES.pop(self.run).leave()

    def shrink(self, case: Case, verdict: Verdict) -> Path:
        """Shrink a case that a test of another kind found, and write it.

        Raises FolderTaken and OSError.
        """
        self.enter()
        settings = settled(self.settings)
        original = describe(settings, case, -1, verdict.signature, lines_of(verdict))
        path = self.folder.reproducer_path(verdict.signature)
        target = load_isolated(self.settings.target, self.settings.deadline)
        reference = load_isolated_reference(
            self.settings.reference, target.contract, self.settings.deadline
        )
        shrink_to_file(original, target, reference, path, self.settings.shrink_seconds)
        return path


class Progress(Struct, frozen=True):
    """What a shard has seen so far of a campaign whose target and domain are settled.

    It is left after every batch, so that nothing is lost with a worker that is killed.
    """

    settings: Settings
    tally: Tally


class ShardTest:
    """One shard of a plan, as the body of a test."""

    def __init__(self, plan: CampaignPlan, index: int) -> None:
        self._plan = plan
        self._index = index
        self._settings = plan.settings

    def run(self) -> None:
        """Fuzz the shard; its tally is left in the run's folder, and a new finding fails the test.

        What the ledger knows, and what the target claims nothing about, does not fail it.
        """
        try:
            self._plan.enter()
        except FolderTaken as error:
            pytest.fail(str(error), pytrace=False)
        except OSError as error:
            pytest.fail(fault_of(error), pytrace=False)
        self._settings = settings = settled(self._plan.settings)
        if settings.seconds is not None:
            workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
            share = settings.seconds * min(workers, SHARDS) / SHARDS
            settings = msgspec.structs.replace(settings, seconds=share)
        folder = self._plan.folder
        worker = xdist_worker(os.environ.get("PYTEST_XDIST_WORKER", ""))
        use_gpu_of(worker, load_target(settings.target))
        batches = shard_batches(settings, Shard(self._index, SHARDS))
        tally = run_batches(settings, batches, folder, report=self._tell)
        with noting(tally.unwritten):
            write_atomically(folder.shard(self._index), msgspec.json.encode(tally))
        ledger = read_ledger(Path(settings.ledger)) if settings.ledger else Ledger()
        target, source = load_target(settings.target), CaseSource(settings, folder)
        fresh = [
            signature
            for signature, seen in sorted(tally.findings.items())
            if not ledger.knows(target.name, signature)
            and classify(source.at(seen.first_index)) in target.domains
        ]
        if fresh or tally.unwritten:
            pytest.fail(_failure_text(tally, fresh, settings, folder), pytrace=False)

    def _tell(self, tally: Tally) -> None:
        with noting(tally.unwritten):
            data = msgspec.json.encode(Progress(self._settings, tally))
            write_atomically(self._plan.folder.progress(self._index), data, durable=False)


def _failure_text(
    tally: Tally, signatures: list[str], settings: Settings, folder: RunFolder
) -> str:
    lines = []
    if tally.unwritten:
        lines.append(f"{tally.unwritten[0]}: the shard ended early")
        if signatures:
            lines.append(f"cases by index are those of --kv-seed {settings.seed}")
    if signatures:
        kinds = "kind" if len(signatures) == 1 else "kinds"
        lines.append(f"{len(signatures)} {kinds} of mismatch in {tally.cases} cases:")
    for signature in signatures:
        seen = tally.findings[signature]
        lines.append(f"  {signature}: {seen.count} cases, first at index {seen.first_index}")
        lines.append(f"    kv-canary-fuzz replay {folder.reproducer_path(signature)}")
    return "\n".join(lines)


def total_progress(folder: RunFolder) -> Progress | None:
    """What all shards have seen so far, those that ended and those at work; None before that."""
    whole, settings = Tally(), None
    ended = {path.name: path for path in folder.shards()}
    for path in folder.shards_begun():
        part = msgspec.json.decode(path.read_bytes(), type=Progress)
        settings = part.settings
        if path.name not in ended:
            whole.add(part.tally.progress())
    for path in ended.values():
        whole.add(msgspec.json.decode(path.read_bytes(), type=Tally).progress())
    return None if settings is None else Progress(settings, whole)


def finish_plan(plan: CampaignPlan, tell: Tell, *, interrupted: bool) -> tuple[list[str], bool]:
    """Sum up the shards that ran, shrink what they found; the lines to print, if any ran.

    Of a shard that did not end, all batches that did are counted. Also whether something that the
    ledger tolerates no longer happens, or files could not be written.
    """
    if not plan.is_in:
        return [], False
    folder = plan.folder
    ended = {path.name: path for path in folder.shards()}
    tallies = [msgspec.json.decode(path.read_bytes(), type=Tally) for path in ended.values()]
    faults: list[str] = []
    for path in folder.shards_begun():
        if path.name not in ended:
            tallies.append(msgspec.json.decode(path.read_bytes(), type=Progress).tally)
            with noting(faults):
                folder.forget_batch(tallies[-1].last)
    if not tallies and not folder.lost_batches():
        return [], False
    whole = Tally(interrupted=interrupted, unwritten=faults)
    for tally in tallies:
        whole.add(tally)
    summary = publish(folder, finish(settled(plan.settings), folder, whole, tell=tell))
    return summary_lines(summary, plan.root), bool(summary.gone or summary.unwritten)
