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
from .kinds import HANG, KILLED, UNLOADED
from .nursery import Nursery
from .protocol import MAX_ANSWER_BYTES, Doomed, Ended, Request, decode_answer, encode
from .report import Report, read_report
from .shared import COUNT, LAUNCH_NAMES, LOADED, PROGRESS_BYTES, Log, SharedMemory
from .zygote import Fork

LOOK_SECONDS = 0.2
LOAD_LOOK_SECONDS = 0.002
LOAD_SECONDS = 600.0
"""So long a process may load its target. What it takes is no matter of the deadline: a context of a
device, made together with those of many other processes, takes many seconds of the processor."""


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
        self._loaded = False
        self._request = b""

    @property
    def loaded(self) -> bool:
        """Whether it has loaded its target. Once seen, it stays so whatever the target writes."""
        self._loaded = self._loaded or bool(self._progress.words[LOADED])
        return self._loaded

    def ask(self, request: Request) -> None:
        """Send a request; `answer` says what came of it.

        It waits until the target is loaded: before that the process reads nothing, and a message
        that finds no room would hold up this one.
        """
        self._request = encode(request)
        if self.loaded:
            self._send()

    def _send(self) -> None:
        request, self._request = self._request, b""
        self._busy = self._processor_seconds()
        with suppress(OSError):
            self._connection.send_bytes(request)

    def answer(self, cases: int = 0) -> Ended | Loss:
        """What the request about so many cases came to, or how the process died.

        A death leaves nothing of this object to use; it is closed.
        """
        hung = self._wait()
        answer = None if hung else self._receive()
        self._loaded = self.loaded
        if isinstance(answer, Ended):
            if cases:
                used = self._processor_seconds() - self._busy
                self._deadline.learn(used, cases, fresh=self._fresh)
            self.served += cases
            self._fresh = False
            return answer
        case, step, launch, *_ = self._progress.words.tolist()
        self._kill()
        code = self._nursery.reap(self.process)
        report = read_report(self._log.text())
        self._close()
        name = LAUNCH_NAMES[launch] if 0 <= launch < len(LAUNCH_NAMES) else ""
        kind = HANG if hung else _kind(code, answer, report)
        if not self._loaded:
            kind = UNLOADED
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
        """Let the process end; it is killed where it does not, or where it never did anything."""
        if not self.loaded:
            self._kill()
        self._connection.close()
        self._nursery.reap(self.process)
        self._progress.close()
        self._log.close()

    def _wait(self) -> bool:
        """Wait for an answer or the end of the process; True where neither comes in time.

        The time of a launch begins when the target is loaded.
        """
        until = time.monotonic() + LOAD_SECONDS
        while not self.loaded:
            if self._connection.poll(LOAD_LOOK_SECONDS):
                return False
            if time.monotonic() > until:
                return True
        if self._request:
            self._send()
        count, since, busy = -1, 0.0, 0.0
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
