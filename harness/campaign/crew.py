"""The worker processes of a campaign on one machine."""

from __future__ import annotations

import multiprocessing
import queue
import signal
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.context import SpawnProcess
from multiprocessing.synchronize import Event
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

from msgspec.structs import replace

from ..targets.builtin import load_target
from ..targets.devices import use_gpu_of
from .run_folder import RunFolder
from .settings import Settings, Shard
from .shard import run_batches, shard_batches
from .tally import Tally

REPORT_SECONDS = 0.2
_GRACE_SECONDS = 30.0


class Worker(NamedTuple):
    process: SpawnProcess
    shard: Shard


def run_crew(
    settings: Settings,
    folder: RunFolder,
    workers: int,
    *,
    show: Callable[[Tally, bool], None],
) -> Tally:
    """Run the campaign on ``workers`` spawned processes and return what they saw together.

    ``show`` gets the totals, and whether all workers are at work yet, several times a second. On
    Ctrl-C the workers end their batch, and what they saw is returned. When a worker dies, what it
    had in flight stays named in the folder and a fresh worker goes on behind it.
    """
    crew = Crew(settings, folder, workers)
    interrupted = False
    try:
        while crew.at_work():
            crew.listen()
            show(crew.total(), crew.complete)
    except KeyboardInterrupt:
        interrupted = True
        crew.wind_up()
    crew.drain()
    whole = crew.total()
    whole.interrupted = interrupted
    return whole


class Crew:
    """Workers, their reports, and their replacements."""

    def __init__(self, settings: Settings, folder: RunFolder, workers: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._settings = settings
        self._folder = folder
        self._reports: Any = context.Queue()
        self._stop: Event = context.Event()
        self._latest: dict[int, Tally] = {}
        self._began: float | None = None
        self._size = workers
        self._workers = [self._hire(Shard(number, workers)) for number in range(workers)]

    @property
    def complete(self) -> bool:
        return len(self._latest) >= self._size

    def _hire(self, shard: Shard) -> Worker:
        settings = self._settings
        if settings.seconds is not None and self._began is not None:
            left = max(0.0, settings.seconds - (monotonic() - self._began))
            settings = replace(settings, seconds=left)
        process = multiprocessing.get_context("spawn").Process(
            target=_work,
            args=(settings, shard, str(self._folder.root), self._reports, self._stop),
            daemon=True,
        )
        process.start()
        return Worker(process, shard)

    def at_work(self) -> bool:
        """Whether any worker is running; replaces those that died over a batch."""
        for position, (process, shard) in enumerate(self._workers):
            if process.is_alive() or process.exitcode == 0 or self._stop.is_set():
                continue
            lost = self._folder.in_flight(process.pid or 0)
            if lost is not None:
                behind = self._settings.batch_of(lost.first) + shard.of
                self._workers[position] = self._hire(replace(shard, index=behind))
        return any(process.is_alive() for process, _ in self._workers)

    def listen(self) -> None:
        """Take reports for a moment."""
        until = monotonic() + REPORT_SECONDS
        while (left := until - monotonic()) > 0:
            try:
                process, tally = self._reports.get(timeout=left)
            except queue.Empty:
                return
            self._latest[process] = tally
            if self._began is None:
                self._began = monotonic() - tally.seconds

    def drain(self) -> None:
        """Take the reports that are still on their way."""
        with suppress(queue.Empty):
            while True:
                process, tally = self._reports.get(timeout=REPORT_SECONDS)
                self._latest[process] = tally

    def wind_up(self) -> None:
        """Ask the workers to end, hear them out, and kill those that do not."""
        self._stop.set()
        until = monotonic() + _GRACE_SECONDS
        while self.at_work() and monotonic() < until:
            self.listen()
        for process, _ in self._workers:
            if process.is_alive():
                process.kill()

    def total(self) -> Tally:
        whole = Tally()
        for tally in self._latest.values():
            whole.add(tally)
        return whole


def _work(settings: Settings, shard: Shard, root: str, reports: Any, stop: Event) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    use_gpu_of(shard.index % shard.of, load_target(settings.target))
    process = multiprocessing.current_process().pid
    last = 0.0

    def report(tally: Tally) -> None:
        nonlocal last
        if monotonic() - last >= REPORT_SECONDS:
            last = monotonic()
            reports.put((process, tally))

    batches = shard_batches(settings, shard)
    folder = RunFolder(Path(root))
    tally = run_batches(settings, batches, folder, report=report, stop=stop.is_set)
    reports.put((process, tally))
