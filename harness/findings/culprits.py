"""Which cases of a lost batch kill the process that runs them."""

from __future__ import annotations

import multiprocessing
import signal
from multiprocessing.connection import Connection
from pathlib import Path

from ..campaign.run_folder import InFlight, RunFolder
from ..campaign.settings import Settings
from ..campaign.shard import run_batches
from ..campaign.tally import Tally

CRASH = "crash: "
"""How the signature of a case that kills its process begins."""


def explain_lost_batch(settings: Settings, folder: RunFolder, batch: InFlight) -> Tally:
    """Run the cases of ``batch`` one at a time in processes that may die.

    Each case that kills its process ran alone, so only the guilty one is blamed; the tally holds
    what the others showed as well.
    """
    whole = Tally()
    first, end = batch.first, batch.first + batch.count
    while first < end:
        seen, lost, exitcode = _run_until_death(settings, folder, first, end)
        whole.add(seen)
        if lost is None:
            break
        whole.sight(CRASH + _cause(exitcode), lost.first)
        whole.cases += 1
        first = lost.first + 1
    return whole


def _run_until_death(
    settings: Settings, folder: RunFolder, first: int, end: int
) -> tuple[Tally, InFlight | None, int]:
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(
        target=_run_singly, args=(settings, str(folder.root), first, end, sender)
    )
    process.start()
    sender.close()
    seen = Tally()
    while True:
        try:
            seen = receiver.recv()
        except EOFError:
            break
    process.join()
    exitcode = process.exitcode or 0
    lost = folder.in_flight(process.pid or 0) if exitcode else None
    return seen, lost, exitcode


def _run_singly(settings: Settings, root: str, first: int, end: int, reports: Connection) -> None:
    batches = (range(index, index + 1) for index in range(first, end))
    run_batches(settings, batches, RunFolder(Path(root)), report=reports.send)


def _cause(exitcode: int) -> str:
    return signal.Signals(-exitcode).name if exitcode < 0 else f"exit status {exitcode}"
