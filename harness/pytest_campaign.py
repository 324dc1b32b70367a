"""A campaign cut into tests: shards that any number of workers run to the same end."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from kv_canary_fuzz.reports.summary_text import summary_lines
from kv_canary_fuzz.strategies.case import Case

from .atomic_file import write_atomically
from .campaign import default_folder, fresh_seed, settled
from .finish import finish, shrink_to_file
from .provenance import describe
from .run_folder import RunFolder
from .settings import DomainName, Settings, Shard
from .shard import run_batches, shard_batches
from .tally import Tally
from .targets import load_reference, load_target
from .verdict import Verdict, lines_of

SHARDS = 8
PULL_REQUEST_SEED = 1
PULL_REQUEST_CASES = 150_000


class CampaignPlan(Struct, frozen=True):
    """What every worker of one pytest run must agree on."""

    settings: Settings
    root: str

    @classmethod
    def of(cls, option: Any) -> CampaignPlan:
        """The plan that the command line asks for.

        Without length and seed it is the pull-request campaign: a fixed seed and a fixed number of
        cases, the same every time.
        """
        bounded = option.kv_seconds is not None or option.kv_cases is not None
        seed = option.kv_seed
        if seed is None:
            seed = fresh_seed() if bounded else PULL_REQUEST_SEED
        settings = Settings(
            target=option.kv_target or "auto",
            reference=option.kv_reference,
            domain=DomainName(option.kv_domain),
            seed=seed,
            cases=option.kv_cases if bounded else PULL_REQUEST_CASES,
            seconds=option.kv_seconds,
            shrink_seconds=option.kv_shrink_seconds,
        )
        return cls(settings, str(option.kv_out or default_folder(seed).absolute()))

    def shrink(self, case: Case, verdict: Verdict) -> Path:
        """Shrink a case that a test of another kind found, and write it."""
        settings = settled(self.settings)
        original = describe(settings, case, -1, verdict.signature, lines_of(verdict))
        path = RunFolder(Path(self.root)).reproducer_path(verdict.signature)
        target = load_target(self.settings.target)
        reference = load_reference(self.settings.reference)
        shrink_to_file(original, target, reference, path, self.settings.shrink_seconds)
        return path


class ShardTest:
    """One shard of a plan, as the body of a test."""

    def __init__(self, plan: CampaignPlan, index: int) -> None:
        self._plan = plan
        self._index = index

    def run(self) -> None:
        """Fuzz the shard; its tally is left in the run's folder, and a finding fails the test."""
        settings = settled(self._plan.settings)
        if settings.seconds is not None:
            workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
            share = settings.seconds * min(workers, SHARDS) / SHARDS
            settings = msgspec.structs.replace(settings, seconds=share)
        folder = RunFolder(Path(self._plan.root))
        batches = shard_batches(settings, Shard(self._index, SHARDS))
        tally = run_batches(settings, batches, folder, report=lambda _: None)
        write_atomically(folder.shard(self._index), msgspec.json.encode(tally))
        if tally.findings:
            pytest.fail(_findings_text(tally, folder), pytrace=False)


def _findings_text(tally: Tally, folder: RunFolder) -> str:
    lines = [f"{len(tally.findings)} kinds of mismatch in {tally.cases} cases:"]
    for signature, seen in sorted(tally.findings.items()):
        lines.append(f"  {signature}: {seen.count} cases, first at index {seen.first_index}")
        lines.append(f"    kv-canary-fuzz replay {folder.reproducer_path(signature)}")
    return "\n".join(lines)


def finish_plan(plan: CampaignPlan) -> list[str]:
    """Sum up the shards that ran, shrink what they found; the lines to print, if any ran."""
    folder = RunFolder(Path(plan.root))
    tallies = [msgspec.json.decode(path.read_bytes(), type=Tally) for path in folder.shards()]
    if not tallies and not folder.lost_batches():
        return []
    whole = Tally()
    for tally in tallies:
        whole.add(tally)
    summary = finish(settled(plan.settings), folder, whole, tell=lambda _: None)
    return summary_lines(summary, plan.root)
