"""A target that runs in disposable processes, as the harness uses it: batches and single cases."""

from __future__ import annotations

from typing import NamedTuple

from kv_canary_fuzz.strategies.case import Case

from ..execution.arena import Batch, Bytes, allocate, fill, lay_out_batch
from ..execution.execution import Run
from ..execution.outcome import Death, Raised
from .deadline import Deadline
from .disposable import HANG, KILLED, Disposable, Loss
from .nursery import Nursery
from .protocol import Ended, Request, RunCases, RunSteps
from .shared import SharedMemory

CASES_PER_PROCESS = 8192
CASES_PER_DEVICE_PROCESS = 65536
"""A process on a device takes seconds to start: it has the device's context to make."""

LEAST_BYTES = 16 * 2**20
TRIES = 3
"""How often a process that was killed from outside is replaced before its case is blamed."""


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
    return, and so what they do to the process is noticed at another place.
    """

    def __init__(
        self, nursery: Nursery, deadline: Deadline, gpu: int | None = None, *, late: bool = False
    ) -> None:
        self._nursery = nursery
        self._gpu = gpu
        self._deadline = deadline
        self._late = late
        self._arena: SharedMemory | None = None
        self._process: Disposable | None = None
        self._batch: Batch | None = None

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
        self._living().ask(RunCases(batch.cases))

    def finish(self) -> tuple[Run, Bytes]:
        """Wait for the batch that was begun: what its steps did, and its bytes.

        Where its process dies, all cases are run all the same, and the run names those that died.
        """
        batch = self._batch
        assert batch is not None
        answer = self._answer(len(batch.cases))
        if isinstance(answer, Ended):
            return run_of(answer), self.arena(batch.size)
        return self._sort_out(batch, answer)

    def run_steps(self, case: Case) -> Steps:
        """Run ``case`` alone, from its first byte. Raises TargetError."""
        batch = lay_out_batch([case])
        size, steps = batch.size, len(case.steps)
        for _ in range(TRIES):
            memory = self.arena(size * (steps + 1))
            fill(batch, memory)
            answer = self._ask(RunSteps(case))
            if isinstance(answer, Ended) or answer.death.kind != KILLED:
                break
        endings: list[Raised | Death | None] = [None] * steps
        if isinstance(answer, Loss):
            step = min(answer.step, steps - 1)
            endings[step:] = [_blamed(answer.death)] * (steps - step)
            for later in range(step + 1, steps + 1):
                memory[size * later : size * (later + 1)] = memory[:size]
        else:
            for (_, step), raised in run_of(answer).raised.items():
                endings[step] = raised
        return Steps(tuple(endings), tuple(memory.copy().reshape(steps + 1, size)[1:]))

    def let_go(self) -> None:
        """Let the process go; the next request gets a fresh one."""
        if self._process is not None:
            self._process.close()
            self._process = None

    def _living(self) -> Disposable:
        most = CASES_PER_PROCESS if self._gpu is None else CASES_PER_DEVICE_PROCESS
        if self._process is not None and self._process.served >= most:
            self.let_go()
        if self._process is None:
            assert self._arena is not None
            self._process = Disposable(self._nursery, self._arena, self._deadline, self._gpu)
        return self._process

    def _ask(self, request: Request, cases: int = 0) -> Ended | Loss:
        self._living().ask(request)
        return self._answer(cases)

    def _answer(self, cases: int) -> Ended | Loss:
        assert self._process is not None
        answer = self._process.answer(cases)
        if isinstance(answer, Loss):
            self._process = None
        return answer

    def _sort_out(self, batch: Batch, loss: Loss) -> tuple[Run, Bytes]:
        """Run a batch again whose process died, so that who kills its process does so alone.

        From here on every launch is waited for, so that a loss names the case and the step. Where
        nobody dies then, the case is named that was at work in the company of others.
        """
        found = Settlement(batch)
        whole = range(len(batch.cases))
        if self._late:
            again = self._attempt(found, whole)
            if again is None:
                found.run.deaths.update(self._halve(batch, loss))
                return found.run, found.bytes
            loss = again
        self._settle(found, whole, loss)
        if not found.run.deaths and loss.death.kind != KILLED:
            found.run.deaths[loss.case] = loss.death
        return found.run, found.bytes

    def _settle(self, found: Settlement, part: range, loss: Loss) -> None:
        """Run a part of a batch over which a process died: before the suspect, it, after it."""
        if len(part) == 1:
            found.run.deaths[part[0]] = _blamed(loss.death)
            return
        suspect = loss.case
        for piece in (part[:suspect], part[suspect : suspect + 1], part[suspect + 1 :]):
            if len(piece) == 1:
                self.let_go()
            if piece and (lost := self._attempt(found, piece)):
                self._settle(found, piece, lost)

    def _halve(self, batch: Batch, loss: Loss) -> dict[int, Death]:
        """Who ends its process only where launches are not waited for one by one.

        Which launch it was remains unknown. A device that is merely slow to catch up with so many
        launches is no hang: each of them has ended in its time.
        """
        if loss.death.kind in (KILLED, HANG):
            return {}
        part, suspect = range(len(batch.cases)), loss
        while len(part) > 1:
            middle = len(part) // 2
            for half in (part[:middle], part[middle:]):
                self.let_go()
                lost = self._run_part(batch, half, stepwise=False)
                if isinstance(lost, Loss):
                    part, suspect = half, lost
                    break
            else:
                break
        return {part[suspect.case]: suspect.death._replace(launch="")}

    def _attempt(self, found: Settlement, part: range) -> Loss | None:
        """Run a part of a batch; None where its process lived to keep what it did."""
        answer = self._run_part(found.batch, part, stepwise=True)
        if isinstance(answer, Loss):
            return answer
        found.keep(part.start, answer, self._bytes_of(found.batch, part))
        return None

    def _run_part(self, batch: Batch, part: range, *, stepwise: bool) -> Ended | Loss:
        """Run a part of a batch from its first bytes, again where the process was killed."""
        cases = batch.cases[part.start : part.stop]
        for _ in range(TRIES):
            fill(lay_out_batch(cases), self._bytes_of(batch, part))
            answer = self._ask(RunCases(cases, stepwise), len(cases))
            if isinstance(answer, Ended) or answer.death.kind != KILLED:
                break
        return answer

    def _bytes_of(self, batch: Batch, part: range) -> Bytes:
        """Where the bytes of a part of a batch lie while it runs."""
        ends = (*batch.bases, batch.size)
        return self.arena(ends[part.stop] - ends[part.start])


class Settlement:
    """What is known of a batch whose process died: outcomes part by part, and deaths."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.run = Run()
        self.bytes = allocate(batch.size)

    def keep(self, first: int, answer: Ended, data: Bytes) -> None:
        """Take in the outcome of the cases from ``first`` on, whose bytes are ``data``."""
        base = self.batch.bases[first]
        self.bytes[base : base + data.size] = data
        for (case, step), raised in run_of(answer).raised.items():
            self.run.raised[first + case, step] = raised


def run_of(answer: Ended) -> Run:
    """What a process answered, as the run of a batch."""
    return Run(raised={(case, step): Raised(*text) for case, step, *text in answer.raised})


def _blamed(death: Death) -> Death:
    """A case that is killed whenever it runs, by nobody here, takes more memory than there is."""
    return death._replace(kind="out of memory") if death.kind == KILLED else death
