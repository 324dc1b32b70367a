"""A whole campaign on this machine: workers, live line, shrinking, summary."""

from __future__ import annotations

import os
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

from msgspec.structs import replace
from rich.console import Console

from kv_canary_fuzz.reference.contract import earlier
from kv_canary_fuzz.reports.live import Live, live_line
from kv_canary_fuzz.reports.publish import publish
from kv_canary_fuzz.reports.summary_text import summary_lines

from ..targets.builtin import load_other, load_reference, load_target
from ..targets.devices import most_workers
from ..targets.target import CLAIMABLE, TargetError
from .crew import run_crew
from .finish import finish
from .profiles import kept_cases, prepared
from .run_folder import RunFolder
from .settings import WIDE_BATCH, DomainName, Settings
from .source_coverage import counting
from .summary import Summary
from .tenancy import new_run, staying

RISKY_BATCH = 8
"""Cases run together where any may kill its process: what ran beside it has to run again."""

MANY = 2**16
"""So many cases of native code, or no end of them, are run in wide batches."""


def run_campaign(
    settings: Settings, root: Path, workers: int, console: Console, *, verbose: bool = False
) -> Summary:
    """Run ``settings`` on ``workers`` processes and print the summary on ``console``.

    Targets are loaded here first, so that a build is made once and a target that cannot be had is
    a TargetError before any worker starts; the same for the corpus and the ledger. Raises OSError
    where the run's folder cannot be written to, and FolderTaken where another run is in it. What
    cannot be written later is named by the summary, and the run ends early.
    """
    folder, run = RunFolder(root), new_run()
    with ExitStack() as stack:
        leftovers: list[str] = []
        if settings.coverage:  # its counts are in the folder from the first load on
            leftovers += stack.enter_context(staying(folder, run)).leftovers
            stack.enter_context(counting(folder.source_counts))
        settings = settled(settings)
        corpus = kept_cases(settings)
        leftovers += stack.enter_context(staying(folder, run)).leftovers
        settings = prepared(settings, folder, corpus)

        def say(line: str) -> None:
            console.print(line, highlight=False, markup=False, soft_wrap=True)

        def tell(line: str) -> None:
            if verbose or not line.startswith("written"):
                say(line)

        for line in (*leftovers, f"seed {settings.seed}, run folder {folder.root}"):
            say(line)
        with live_line(console, Live(settings), say if verbose else None) as show:
            workers = min(workers, settings.batches)
            tally = run_crew(settings, folder, workers, run=run, show=show)
        summary = publish(folder, finish(settings, folder, tally, tell=tell))
        for line in summary_lines(summary, str(folder.root)):
            say(line)
        return summary


def settled(settings: Settings) -> Settings:
    """The settings with target and domain decided. Raises TargetError."""
    target = load_target(settings.target)
    reference = load_reference(settings.reference, target.contract)
    contract = target.contract
    if reference is not None:
        contract = earlier(contract, reference.contract)
    if settings.third is not None:
        load_other(settings.third, contract)
        if settings.third in (target.name, settings.reference):
            raise TargetError(f"{settings.third} cannot be target or reference and the third too")
    domain = settings.domain
    if domain is DomainName.CLAIMED:
        domain = DomainName.ALL if target.domains == CLAIMABLE else DomainName.VALID
    claimed = domain is DomainName.VALID or target.domains == CLAIMABLE
    batch = settings.batch
    if target.native and not claimed:
        batch = RISKY_BATCH
    elif target.native and (settings.cases is None or settings.cases >= MANY):
        batch = WIDE_BATCH
    return replace(settings, target=target.name, domain=domain, contract=contract.name, batch=batch)


def default_folder(seed: int) -> Path:
    """``reports/out/<date>-<seed>`` under the current folder, with a suffix where that exists."""
    stem = f"{datetime.now():%Y-%m-%d}-{seed}"
    base = Path("reports") / "out"
    folder = base / stem
    number = 2
    while folder.exists():
        folder = base / f"{stem}-{number}"
        number += 1
    return folder


def usual_workers(target: str) -> int:
    """One for each core, but no more than the target's GPUs bear. Raises TargetError."""
    most = most_workers(load_target(target))
    return usable_cores() if most is None else min(usable_cores(), most)


def usable_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
