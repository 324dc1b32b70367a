"""A disposable process as seen from outside: asked, waited for, and found dead."""

from __future__ import annotations

import os
import signal
import socket
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import NamedTuple

import msgspec

from ..execution.outcome import Death
from ..targets.target import TargetError
from .deadline import Deadline, processor_seconds
from .nursery import Nursery
from .protocol import MAX_ANSWER_BYTES, Doomed, Ended, Request, decode_answer, encode
from .report import Report, read_report
from .shared import COUNT, LAUNCH_NAMES, PROGRESS_BYTES, Log, SharedMemory
from .zygote import Fork

LOOK_SECONDS = 0.2
KILLED = "killed"
"""The kind of a death by a signal that nobody here sent: it says nothing about the case."""

_SIGNAL_KINDS = {
    signal.SIGSEGV: "segfault",
    signal.SIGBUS: "bus error",
    signal.SIGABRT: "abort",
    signal.SIGFPE: "arithmetic error",
    signal.SIGILL: "illegal instruction",
}


class Loss(NamedTuple):
    """How a process died, and the case and step that it was at by its own account."""

    death: Death
    case: int
    step: int


class Disposable:
    """One process of a nursery, with ``arena`` shared. Raises TargetError where there is none."""

    def __init__(
        self, nursery: Nursery, arena: SharedMemory, deadline: Deadline, gpu: int | None
    ) -> None:
        self._nursery = nursery
        self._deadline = deadline
        self._log = Log()
        self._progress = SharedMemory(PROGRESS_BYTES)
        self.served = 0
        mine, its = socket.socketpair()
        self._connection = Connection(mine.detach())
        descriptors = its.fileno(), arena.descriptor, self._progress.descriptor
        try:
            self.process = nursery.fork(Fork(arena.size, gpu), (*descriptors, self._log.descriptor))
        except TargetError:
            self._close()
            raise
        finally:
            its.close()
        self._busy = 0.0
        self._fresh = True

    def ask(self, request: Request) -> None:
        """Send a request; `answer` says what came of it."""
        self._busy = self._processor_seconds()
        with suppress(OSError):
            self._connection.send_bytes(encode(request))

    def answer(self, cases: int = 0) -> Ended | Loss:
        """What the request about so many cases came to, or how the process died.

        A death leaves nothing of this object to use; it is closed.
        """
        hung = self._wait()
        answer = None if hung else self._receive()
        if isinstance(answer, Ended):
            self._fresh = False
            self.served += cases
            if cases:
                self._deadline.learn(self._processor_seconds() - self._busy, cases)
            return answer
        case, step, launch, _ = self._progress.words.tolist()
        self._kill()
        code = self._nursery.reap(self.process)
        report = read_report(self._log.text())
        self._close()
        name = LAUNCH_NAMES[launch] if 0 <= launch < len(LAUNCH_NAMES) else ""
        kind = "hang" if hung else _kind(code, answer, report)
        lines = (answer.line,) if answer else report.lines
        death = Death(kind, name, report.place, lines)
        return Loss(death, max(0, min(case, cases - 1)), max(0, step))

    def _receive(self) -> Ended | Doomed | None:
        """The answer; None where the process is gone or said something else."""
        try:
            return decode_answer(self._connection.recv_bytes(MAX_ANSWER_BYTES))
        except msgspec.MsgspecError:
            return Doomed("broken answer", "the process answered with something that is no answer")
        except (EOFError, OSError):
            return None

    def close(self) -> None:
        """Let the process end; it is killed where it does not."""
        self._connection.close()
        self._nursery.reap(self.process)
        self._progress.close()
        self._log.close()

    def _wait(self) -> bool:
        """Wait for an answer or the end of the process; True where neither comes in time."""
        count, since = -1, 0.0
        busy = 0.0
        while not self._connection.poll(LOOK_SECONDS):
            now, used = time.monotonic(), self._processor_seconds()
            if self._progress.words[COUNT] != count:
                count, since, busy = int(self._progress.words[COUNT]), now, used
            elif self._deadline.passed(used - busy, now - since, fresh=self._fresh):
                return True
        return False

    def _processor_seconds(self) -> float:
        try:
            return processor_seconds(self.process)
        except OSError:
            return self._busy

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.process, signal.SIGKILL)

    def _close(self) -> None:
        self._connection.close()
        self._progress.close()
        self._log.close()


def _kind(code: int | None, answer: Doomed | None, report: Report) -> str:
    """How a process died that was not hanging."""
    if answer is not None:
        return answer.kind
    if report.kind:
        return report.kind
    if code is None or code == -signal.SIGKILL:
        return KILLED
    if code < 0:
        return _SIGNAL_KINDS.get(signal.Signals(-code), signal.Signals(-code).name)
    return f"exit status {code}"
