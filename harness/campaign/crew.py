"""The worker processes of a campaign on one machine."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from time import monotonic

from msgspec.structs import replace

from ..atomic_file import noting
from ..isolation.nursery import Nursery, nursery_for
from ..targets.builtin import load_target
from ..targets.devices import use_gpu_of
from ..targets.target import TargetError
from .run_folder import RunFolder
from .settings import Settings, Shard
from .shard import run_batches, shard_batches
from .tally import Tally
from .tenancy import staying

REPORT_SECONDS = 0.2
KILLED_HIRES, FAILED_HIRES = 20, 3
"""Workers that a share of the campaign gets in a row without a batch run to its end: where they
are killed, and where they end by themselves."""

_GRACE_SECONDS = 30.0


def run_crew(
    settings: Settings,
    folder: RunFolder,
    workers: int,
    *,
    run: str,
    show: Callable[[Tally, bool], None],
) -> Tally:
    """Run the campaign on ``workers`` spawned processes and return what they saw together.

    ``run`` names the run that is in the folder (see `tenancy`). ``show`` gets the totals, and
    whether all workers are at work yet, several times a second. On Ctrl-C, or where one of them
    cannot write to the folder, the workers end their batch, and what they saw is returned. When a
    worker dies, what it had in flight stays named in the folder and a fresh worker goes on behind
    it. Raises TargetError where a worker cannot have the target.
    """
    crew = Crew(settings, folder, workers, run)
    interrupted = False
    try:
        while crew.at_work():
            crew.listen()
            seen = crew.total()
            show(seen, crew.complete)
            if seen.unwritten:
                crew.wind_up()
                break
    except KeyboardInterrupt:
        interrupted = True
        crew.wind_up()
    except TargetError:
        crew.dismiss()
        raise
    whole = crew.total()
    whole.interrupted = interrupted
    return whole


class Worker:
    """A process, the share of the campaign that it works on, and what it has seen.

    It has a pipe of its own, so that nothing that it held when it is killed holds up others.
    """

    def __init__(
        self,
        settings: Settings,
        shard: Shard,
        folder: tuple[str, str],
        hires: int,
        nursery: Nursery | None,
    ) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.shard = shard
        self.hires = hires
        self.tally: Tally | None = None
        self.ended = False
        zygote = nursery.introduce() if nursery else None
        arguments = (settings, shard, folder, theirs, zygote)
        self.process: SpawnProcess = context.Process(target=_work, args=arguments, daemon=True)
        self.process.start()
        theirs.close()
        if zygote is not None:
            zygote.close()

    def hear(self) -> None:
        """Take what it has said; nothing more comes from one that ``ended``.

        Raises TargetError where that is what it said.
        """
        try:
            while self.pipe.poll():
                said = self.pipe.recv()
                if isinstance(said, TargetError):
                    raise said
                self.tally = said
        except (EOFError, OSError):
            self.process.join()
            self.pipe.close()
            self.ended = True

    def stop(self) -> None:
        if not self.ended:
            with suppress(OSError):
                self.pipe.send("stop")


class Crew:
    """Workers, what they say, and their replacements."""

    def __init__(self, settings: Settings, folder: RunFolder, workers: int, run: str) -> None:
        self._settings = settings
        self._folder = folder
        self._run = run
        self._began: float | None = None
        self._left: list[Tally] = []
        target = load_target(settings.target)
        self._nursery = nursery_for(target, target.name) if target.native else None
        self._workers = [self._hire(settings, Shard(n, workers), 1) for n in range(workers)]

    @property
    def complete(self) -> bool:
        return all(worker.tally is not None for worker in self._workers)

    def at_work(self) -> bool:
        """Whether any worker is running; replaces those that died."""
        for position, worker in enumerate(self._workers):
            if worker.ended and worker.process.exitcode != 0:
                successor = self._successor(worker)
                if successor is not None:
                    self._workers[position] = successor
        return any(not worker.ended for worker in self._workers)

    def listen(self) -> None:
        """Take what workers say within a moment."""
        pipes = [worker.pipe for worker in self._workers if not worker.ended]
        wait(pipes, REPORT_SECONDS)
        for worker in self._workers:
            if not worker.ended:
                worker.hear()
            if self._began is None and worker.tally is not None:
                self._began = monotonic() - worker.tally.seconds

    def wind_up(self) -> None:
        """Ask the workers to end, hear them out, and kill those that do not."""
        for worker in self._workers:
            worker.stop()
        until = monotonic() + _GRACE_SECONDS
        while any(not worker.ended for worker in self._workers) and monotonic() < until:
            self.listen()
        self.dismiss()

    def dismiss(self) -> None:
        """Kill the workers that are left."""
        for worker in self._workers:
            if not worker.ended:
                worker.process.kill()

    def total(self) -> Tally:
        whole = Tally()
        for tally in self._left:
            whole.add(tally)
        for worker in self._workers:
            if worker.tally is not None:
                whole.add(worker.tally)
        return whole

    def _successor(self, dead: Worker) -> Worker | None:
        """Who goes on behind the batch that a worker died over.

        A batch that it had told of is not lost. None where there is nothing behind it, or where
        one worker after another dies without a batch run to its end.
        """
        hires = 1 if dead.tally is not None else dead.hires + 1
        killed = (dead.process.exitcode or 0) < 0
        if hires > (KILLED_HIRES if killed else FAILED_HIRES):
            return None
        shard = dead.shard
        lost = self._folder.in_flight(dead.process.pid or 0)
        if lost is None and dead.tally is not None:  # it had run its last batch
            return None
        if lost is not None:
            shard = replace(shard, index=self._settings.batch_of(lost.first) + shard.of)
        if dead.tally is not None:
            self._left.append(dead.tally)
            if lost is not None and lost.first == dead.tally.last:
                with noting(dead.tally.unwritten):
                    self._folder.forget_in_flight(dead.process.pid or 0)
            dead.tally = None
        return self._hire(self._remaining(), shard, hires)

    def _hire(self, settings: Settings, shard: Shard, hires: int) -> Worker:
        return Worker(settings, shard, (str(self._folder.root), self._run), hires, self._nursery)

    def _remaining(self) -> Settings:
        """The settings for a worker that begins now."""
        settings = self._settings
        if settings.seconds is not None and self._began is not None:
            left = max(0.0, settings.seconds - (monotonic() - self._began))
            settings = replace(settings, seconds=left)
        return settings


def _work(
    settings: Settings,
    shard: Shard,
    where: tuple[str, str],
    pipe: Connection,
    zygote: Connection | None,
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    root, run = where
    folder = RunFolder(Path(root))
    try:
        target = load_target(settings.target)
        use_gpu_of(shard.index % shard.of, target)
        if zygote is not None:
            nursery_for(target, target.name).join(zygote)
        batches = shard_batches(settings, shard)
        with staying(folder, run):
            pipe.send(run_batches(settings, batches, folder, report=pipe.send, stop=pipe.poll))
    except TargetError as error:
        pipe.send(error)
