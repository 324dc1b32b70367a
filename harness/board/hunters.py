"""The processes that hunt: a bug that kills its process, or never comes back, counts as found, and
takes no other hunt with it.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from time import monotonic

import torch

from .hunt import Hunt, Kill, hunt

CRASH = "crash"
HANG = "hang"
HANG_SECONDS = 120.0
"""A worker that says nothing for so long hangs; builds and shrinking take a fraction of it."""

HUNTS_PER_WORKER = 16
"""A build stays loaded until its process ends."""


class BoardError(Exception):
    """A board that cannot be finished; the worker at fault has said why."""


class Hunter:
    """A worker process, the hunt that it is on, and what it last said."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process: SpawnProcess = context.Process(target=_work, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()
        self.wanted: Hunt | None = None
        self._heard = self._began = monotonic()
        self._under_way = 0
        self._hunts = 0

    @property
    def spent(self) -> bool:
        """Whether it is between hunts and cannot take another."""
        over = self._hunts >= HUNTS_PER_WORKER or not self.process.is_alive()
        return self.wanted is None and over

    def send(self, wanted: Hunt) -> None:
        self._hunts += 1
        self.wanted, self._under_way = wanted, 0
        self._heard = self._began = monotonic()
        self.pipe.send(wanted)

    def listen(self) -> Kill | None:
        """The hunt's end, where it has come: told by the worker, or by its death or silence."""
        try:
            while self.pipe.poll():
                said = self.pipe.recv()
                self._heard = monotonic()
                if isinstance(said, Kill):
                    return said
                self._under_way = said
        except (EOFError, ConnectionError):
            return self._lost(CRASH)
        return self._lost(HANG) if monotonic() - self._heard > HANG_SECONDS else None

    def _lost(self, signature: str) -> Kill:
        """What a worker that says nothing any more found; BoardError where it was at fault."""
        if signature == HANG:
            self.end()
        self.process.join()
        status = self.process.exitcode
        if status is not None and status >= 0:
            raise BoardError(f"a worker of the board ended with status {status}")
        return Kill(cases=self._under_way, seconds=monotonic() - self._began, signature=signature)

    def end(self) -> None:
        self.process.kill()


def run_hunts(
    hunts: Sequence[Hunt], workers: int, show: Callable[[int], None]
) -> dict[tuple[str, int], Kill]:
    left = list(reversed(hunts))
    kills: dict[tuple[str, int], Kill] = {}
    hunters = [Hunter() for _ in range(min(workers, len(hunts)))]
    try:
        while len(kills) < len(hunts):
            for number, hunter in enumerate(hunters):
                if hunter.wanted is not None and (kill := hunter.listen()) is not None:
                    kills[hunter.wanted.bug, hunter.wanted.seed] = kill
                    hunter.wanted = None
                    show(len(kills))
                if hunter.spent and left:
                    hunter.end()
                    hunter = hunters[number] = Hunter()
                if hunter.wanted is None and left:
                    hunter.send(left.pop())
            wait(_pipes(hunters), timeout=1.0)
    finally:
        for hunter in hunters:
            hunter.end()
    return kills


def _pipes(hunters: Iterable[Hunter]) -> list[Connection]:
    return [hunter.pipe for hunter in hunters if hunter.wanted is not None]


def _work(pipe: Connection) -> None:
    torch.set_num_threads(1)
    with suppress(EOFError):
        while True:
            pipe.send(hunt(pipe.recv(), pipe.send))
