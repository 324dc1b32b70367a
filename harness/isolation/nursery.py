"""Where disposable processes for a target come from: a zygote, started when first needed."""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path

from ..targets.builtin import COVERAGE_FOLDER
from ..targets.large import LARGE_PREFIX
from ..targets.target import Target, TargetError
from .zygote import MESSAGE_BYTES, Adopt, Brief, Fork, Order, Reap, Reply, decode_reply, encode

LARGEST_HEAP = 4 * 2**30
RESTARTS, KILLED_RESTARTS = 3, 20
"""Zygotes that are started in a row where each ends by itself, and where somebody kills them."""

END_SECONDS = 1.0

_START = """\
import sys, json
control, sys.path[:] = int(sys.argv[1]), json.loads(sys.argv[2])
from kv_canary_fuzz.harness.isolation.zygote import main
main(control)
"""
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class Nursery:
    """Forks processes that have a target loaded, and says how they ended.

    The zygote is a process of its own that is started by `begin` or with the first child, and
    started again where somebody killed it.
    """

    def __init__(self, brief: Brief, environment: Mapping[str, str]) -> None:
        self._brief = brief
        self._environment = dict(environment)
        self._process: subprocess.Popen[bytes] | None = None
        self._side: socket.socket | None = None
        self._ready = False

    @property
    def bounded(self) -> bool:
        """Whether its processes may take so much memory and no more."""
        return self._brief.heap is not None

    @property
    def target(self) -> str:
        """The name of the target that its processes have loaded."""
        return self._brief.target

    def begin(self) -> None:
        """Start the zygote, if there is none, and do not wait for it."""
        if self._side is not None:
            return
        mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        words = [sys.executable, "-c", _START, str(its.fileno()), json.dumps(sys.path)]
        with its:
            self._process = subprocess.Popen(
                words,
                env={**os.environ, **_ONE_THREAD, **self._environment},
                pass_fds=(its.fileno(),),
                stdin=subprocess.DEVNULL,
                process_group=0,
            )
        mine.send(encode(self._brief))
        self._side, self._ready = mine, False

    def introduce(self) -> Connection:
        """A socket for another process, which can `join` this zygote with it."""
        mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            for _ in range(RESTARTS):
                self.begin()
                assert self._side is not None
                with suppress(OSError):
                    socket.send_fds(self._side, [encode(Adopt())], [its.fileno()])
                    break
                self.close()
        return Connection(mine.detach())

    def join(self, zygote: Connection) -> None:
        """Use a zygote that another process introduced this one to."""
        self._side = socket.socket(fileno=os.dup(zygote.fileno()))
        zygote.close()

    def fork(self, order: Fork, descriptors: Sequence[int]) -> int:
        """A new process that works on ``descriptors``. Raises TargetError."""
        ended = 0
        for _ in range(KILLED_RESTARTS):
            with suppress(OSError, EOFError):
                return self._ask(order, descriptors).value
            ended += not self._was_killed()
            self.close()
            if ended == RESTARTS:
                break
        raise TargetError(f"target {self._brief.target!r} cannot be loaded: its process ends")

    def _was_killed(self) -> bool:
        """Whether the zygote did not end by itself; of another process's nobody can tell."""
        if self._process is None:
            return False
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(END_SECONDS) == -signal.SIGKILL
        return False

    def reap(self, process: int) -> int | None:
        """The exit code of a process that is ending; None where nobody is left to know."""
        if self._side is not None:
            with suppress(OSError, EOFError):
                return self._ask(Reap(process)).value
        self.close()
        return None

    def _ask(self, order: Order, descriptors: Sequence[int] = ()) -> Reply:
        self.begin()
        assert self._side is not None
        if not self._ready:
            self._hear()
            self._ready = True
        socket.send_fds(self._side, [encode(order)], descriptors)
        return self._hear()

    def _hear(self) -> Reply:
        assert self._side is not None
        data = self._side.recv(MESSAGE_BYTES)
        if not data:
            raise EOFError
        reply = decode_reply(data)
        if reply.error:
            self.close()
            raise TargetError(reply.error)
        return reply

    def close(self) -> None:
        """End the zygote; its children end with it."""
        if self._side is not None:
            self._side.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._side = self._process = None
        self._ready = False


def nursery_for(target: Target, name: str, *, counts: bool = True) -> Nursery:
    """The nursery of a target that was loaded as ``name``; one in this process.

    Its processes count what they reach where this one would, and ``counts`` says so.
    """
    late = target.device != "cpu"
    boundless = late or target.environment or name.startswith(LARGE_PREFIX)
    brief = Brief(name, str(Path.cwd()), late, None if boundless else LARGEST_HEAP)
    counted = {COVERAGE_FOLDER: os.environ.get(COVERAGE_FOLDER, "") if counts else ""}
    return _kept(brief, tuple(sorted((target.environment | counted).items())))


@cache
def _kept(brief: Brief, environment: tuple[tuple[str, str], ...]) -> Nursery:
    nursery = Nursery(brief, dict(environment))
    atexit.register(nursery.close)
    return nursery
