"""A target that runs in disposable processes, as the harness uses it: batches and single cases."""

from __future__ import annotations

import os
import time
from collections import deque
from typing import NamedTuple

from kv_canary_fuzz.strategies.case import Case

from ..execution.arena import Batch, Bytes, fill, lay_out_batch
from ..execution.execution import Run
from ..execution.outcome import Death, Raised
from ..targets.target import TargetError
from .deadline import Deadline
from .disposable import Disposable, Loss
from .growth import Growth
from .kinds import KILLED, NOBODYS, SHORT, UNLOADED
from .nursery import Nursery
from .protocol import Ended, Request, RunCases, RunSteps
from .settlement import Settlement, blamed, run_of
from .shared import SharedMemory

CASES_PER_PROCESS = 8192
CASES_PER_DEVICE_PROCESS = 65536
"""A process on a device takes seconds to start: it has the device's context to make."""

LEAST_BYTES = 16 * 2**20
MOST_EARLIER = 1024
"""Cases that are remembered of those that a process ran."""

TRIES = 3
"""How often a process is replaced whose death says nothing about its case."""

PAUSE_SECONDS = 1.0
"""Before a process is replaced that found no memory, or no target; then four times as long."""

LEAD = 8
"""A process gets a successor when all but one in so many of its cases are run."""
SPREAD = 16
"""The first process of each worker lives shorter by up to one in two, in so many steps."""


class Steps(NamedTuple):
    """How each step of a case ended, and the bytes after each.

    What ended the process stands for all steps from there on.
    """

    endings: tuple[Raised | Death | None, ...]
    snapshots: tuple[Bytes, ...]


class Isolation:
    """Runs one target's cases in processes that may die; whoever dies is replaced.

    One batch or one case is in work at a time, and its bytes lie in `arena`. ``gpu`` is the number
    of the one that is current in those processes. ``late`` is whether launches end later than they
    return, and so what they do to the process is noticed at another place. ``outgrown`` counts the
    processes that were let go because they had taken much more memory than at first.
    """

    def __init__(
        self, nursery: Nursery, deadline: Deadline, gpu: int | None = None, *, late: bool = False
    ) -> None:
        self._nursery = nursery
        self._gpu = gpu
        self._deadline = deadline
        self._late = late
        self._most = CASES_PER_PROCESS if gpu is None else CASES_PER_DEVICE_PROCESS
        self._lifetime = self._most - self._most * (os.getpid() % SPREAD) // (2 * SPREAD)
        self._arena: SharedMemory | None = None
        self._process: Disposable | None = None
        self._successor: Disposable | None = None
        self._batch: Batch | None = None
        self._growth: Growth | None = None
        self.outgrown = 0
        self._ran: deque[tuple[Case, ...]] = deque()
        self._earlier: tuple[tuple[Case, ...], ...] = ()

    def earlier(self) -> tuple[Case, ...]:
        """What its process had run before the batch that was begun last: the last MOST_EARLIER."""
        cases = [case for batch in self._earlier for case in batch]
        return tuple(cases[-MOST_EARLIER:])

    def begin(self) -> None:
        """Let the target be loaded meanwhile."""
        self._nursery.begin()

    def arena(self, size: int) -> Bytes:
        """Where the bytes of the next batch or case belong."""
        if self._arena is None or self._arena.size < size:
            self.let_go()
            if self._arena is not None:
                self._arena.close()
            self._arena = SharedMemory(max(LEAST_BYTES, size * 5 // 4 // 4096 * 4096 + 4096))
        return self._arena.bytes[:size]

    def start(self, batch: Batch) -> None:
        """Begin to run the batch, whose bytes are in the arena. Raises TargetError."""
        self._batch = batch
        process = self._living()
        self._earlier = tuple(self._ran)
        process.ask(RunCases(batch.cases, batch.layouts))
        self._remember(batch.cases)

    def finish(self) -> tuple[Run, Bytes]:
        """Wait for the batch that was begun: what its steps did, and its bytes.

        Where its process dies, all cases are run all the same, and the run names those that died.
        """
        batch = self._batch
        assert batch is not None
        answer = self._answer(len(batch.cases))
        if isinstance(answer, Ended):
            return run_of(answer), self.arena(batch.size)
        settlement = Settlement(batch, self._run_part, self.let_go)
        settlement.sort_out(answer, late=self._late)
        return settlement.run, settlement.bytes

    def run_steps(self, case: Case) -> Steps:
        """Run ``case`` alone, from its first byte. Raises TargetError."""
        batch = lay_out_batch([case])
        size, steps = batch.size, len(case.steps)
        answer = self._run(batch, RunSteps(case), size * (steps + 1))
        memory = self.arena(size * (steps + 1))
        endings: list[Raised | Death | None] = [None] * steps
        if isinstance(answer, Loss):
            step = min(answer.step, steps - 1)
            endings[step:] = [blamed(answer.death)] * (steps - step)
            for later in range(step + 1, steps + 1):
                memory[size * later : size * (later + 1)] = memory[:size]
        else:
            for (_, step), raised in run_of(answer).raised.items():
                endings[step] = raised
        return Steps(tuple(endings), tuple(memory.copy().reshape(steps + 1, size)[1:]))

    def let_go(self) -> None:
        """Let the process go; the next request gets a fresh one."""
        for process in (self._process, self._successor):
            if process is not None:
                process.close()
        self._process = self._successor = None

    def _living(self) -> Disposable:
        """The process that the next request is put to.

        Its successor loads the target while it works, so that nobody waits for that, and the
        workers of a campaign replace theirs at different times.
        """
        if self._process is not None and self._process.served >= self._lifetime:
            self._process.close()
            self._process, self._lifetime = None, self._most
        if self._process is not None and self._growth is not None and self._growth.passed():
            self.outgrown += 1
            self._process.close()
            self._process = None
        if self._process is None:
            self._process, self._successor = self._successor or self._hire(), None
            self._growth = Growth(self._process.process) if self._nursery.bounded else None
            self._ran.clear()
        elif self._process.served >= self._lifetime - self._most // LEAD:
            self._successor = self._successor or self._hire()
        return self._process

    def _remember(self, cases: tuple[Case, ...]) -> None:
        self._ran.append(cases)
        while sum(map(len, self._ran)) - len(self._ran[0]) >= MOST_EARLIER:
            self._ran.popleft()

    def _hire(self) -> Disposable:
        assert self._arena is not None
        return Disposable(self._nursery, self._arena, self._deadline, self._gpu)

    def _run(self, batch: Batch, request: Request, size: int, cases: int = 0) -> Ended | Loss:
        """Run what is requested about a batch, from its first bytes on.

        Again where a process died in a way that says nothing about its cases. Raises TargetError
        where the target cannot be loaded there, or memory remains short.
        """
        for number in range(TRIES):
            fill(batch, self.arena(size))
            self._living().ask(request)
            self._remember(batch.cases)
            answer = self._answer(cases)
            if isinstance(answer, Ended) or answer.death.kind not in NOBODYS:
                break
            if number == TRIES - 1:
                self._refuse(answer.death)
            elif answer.death.kind != KILLED:
                time.sleep(PAUSE_SECONDS * 4**number)
        return answer

    def _refuse(self, death: Death) -> None:
        """Raise TargetError where processes keep dying before they could do anything."""
        name = self._nursery.target
        reason = " ".join(death.report[-1:]) or "its process ends"
        if death.kind == UNLOADED:
            raise TargetError(f"target {name!r} cannot be loaded: {reason}")
        if death.kind == SHORT:
            raise TargetError(f"too little memory for {name!r}: try fewer --workers ({reason})")

    def _answer(self, cases: int) -> Ended | Loss:
        assert self._process is not None
        answer = self._process.answer(cases)
        if isinstance(answer, Loss):
            self._process = None
        return answer

    def _run_part(self, cases: tuple[Case, ...], *, stepwise: bool) -> tuple[Ended | Loss, Bytes]:
        """Run a part of a batch from its first bytes, and its bytes then."""
        batch = lay_out_batch(cases)
        request = RunCases(batch.cases, batch.layouts, stepwise)
        answer = self._run(batch, request, batch.size, len(cases))
        return answer, self.arena(batch.size)
