"""What becomes of a batch whose process died: who is to blame, and what the others did."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kv_canary_fuzz.strategies.case import Case

from ..execution.arena import Batch, Bytes, allocate
from ..execution.execution import Run
from ..execution.outcome import Death, Raised
from .disposable import Loss
from .kinds import HANG, KILLED, NOBODYS, OUT_OF_MEMORY
from .protocol import Ended


class RunPart(Protocol):
    """Runs cases from their first bytes on, and gives what came of it with their bytes then.

    With ``stepwise`` each launch is waited for, so that a loss names the case and the step.
    """

    def __call__(
        self, cases: tuple[Case, ...], *, stepwise: bool
    ) -> tuple[Ended | Loss, Bytes]: ...


class Settlement:
    """Runs the cases of a batch again whose process died.

    ``run`` and ``bytes`` are what they did and left in the end, and the deaths.
    """

    def __init__(self, batch: Batch, run_part: RunPart, let_go: Callable[[], None]) -> None:
        self._cases = batch.cases
        self._ends = (*batch.bases, batch.size)
        self._run_part = run_part
        self._let_go = let_go
        self.run = Run()
        self.bytes = allocate(batch.size)

    def sort_out(self, loss: Loss, *, late: bool) -> None:
        """Run the batch so that who kills its process does so alone.

        A loss whose suspect cannot be trusted, by launches that end ``late`` or by nobody's fault,
        is followed by a run of the whole, launch by launch. Where nobody dies alone, the case is
        named that was at work in the company of others.
        """
        whole = range(len(self._cases))
        if late or loss.death.kind in NOBODYS:
            again = self._attempt(whole)
            if again is None:
                if late and loss.death.kind not in (*NOBODYS, HANG):
                    self._halve(loss)
                return
            loss = again
        self._settle(whole, loss)
        if not self.run.deaths and loss.death.kind not in NOBODYS:
            self.run.deaths[loss.case] = loss.death

    def _settle(self, part: range, loss: Loss) -> None:
        """Run a part over which a process died: before the suspect, it, after it."""
        if len(part) == 1:
            self.run.deaths[part[0]] = blamed(loss.death)
            return
        suspect = loss.case
        for piece in (part[:suspect], part[suspect : suspect + 1], part[suspect + 1 :]):
            if len(piece) == 1:
                self._let_go()
            if piece and (lost := self._attempt(piece)):
                self._settle(piece, lost)

    def _halve(self, loss: Loss) -> None:
        """Name who ends its process only where launches are not waited for one by one.

        Which launch it was remains unknown. That a device is slow to catch up with so many of them
        is no hang: each has ended in its time.
        """
        part = range(len(self._cases))
        while len(part) > 1:
            middle = len(part) // 2
            for half in (part[:middle], part[middle:]):
                self._let_go()
                lost, _ = self._run_part(self._cases[half.start : half.stop], stepwise=False)
                if isinstance(lost, Loss):
                    part, loss = half, lost
                    break
            else:
                break
        self.run.deaths[part[loss.case]] = loss.death._replace(launch="")

    def _attempt(self, part: range) -> Loss | None:
        """Run a part; None where its process lived to keep what it did."""
        answer, data = self._run_part(self._cases[part.start : part.stop], stepwise=True)
        if isinstance(answer, Loss):
            return answer
        self.bytes[self._ends[part.start] : self._ends[part.stop]] = data
        for (case, step), raised in run_of(answer).raised.items():
            self.run.raised[part.start + case, step] = raised
        return None


def run_of(answer: Ended) -> Run:
    """What a process answered, as the run of a batch."""
    return Run(raised={(case, step): Raised(*text) for case, step, *text in answer.raised})


def blamed(death: Death) -> Death:
    """A case that is killed whenever it runs, by nobody here, takes more memory than there is."""
    return death._replace(kind=OUT_OF_MEMORY) if death.kind == KILLED else death
