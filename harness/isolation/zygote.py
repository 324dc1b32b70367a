"""The process that disposable ones are forked from: spawned, one thread, the target loaded.

It is asked over a socket: for a fork, with the descriptors that the new process works on, or for
the exit code of a process. It ends, and its children with it, when the other side is gone.
"""

from __future__ import annotations

import gc
import math
import os
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from typing import NamedTuple, NoReturn

from msgspec import Struct, msgpack

MESSAGE_BYTES = 65536
REAP_SECONDS = 5.0
"""So long a process may take to end by itself; on a device that takes seconds."""
LOOK_SECONDS = 0.001


class Brief(Struct, frozen=True):
    """The target to load, by whom, and what its processes may take.

    A target of a GPU is loaded by each child (``late``), since a CUDA context does not survive a
    fork. ``heap`` bounds the bytes of data of a child; None does not.
    """

    target: str
    folder: str
    late: bool
    heap: int | None


class Fork(Struct, frozen=True, tag=True):
    """Fork a process; connection, arena, progress and log come beside this as descriptors.

    ``gpu`` is the number of the GPU that it makes the current one.
    """

    arena_bytes: int
    gpu: int | None


class Reap(Struct, frozen=True, tag=True):
    """Say how a process ended, which is ending."""

    process: int


class Adopt(Struct, frozen=True, tag=True):
    """Take orders from the socket beside this as well; there is no reply."""


class Reply(Struct, frozen=True):
    """A process, or its exit code; ``error`` says why the target cannot be loaded."""

    value: int = 0
    error: str = ""


Order = Fork | Reap | Adopt
encode = msgpack.Encoder().encode
decode_brief = msgpack.Decoder(Brief).decode
decode_order = msgpack.Decoder(Order).decode
decode_reply = msgpack.Decoder(Reply).decode


def main(control: int) -> None:
    """Serve on the socket behind the descriptor ``control``; a Brief comes first."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    side = socket.socket(fileno=control)
    brief = decode_brief(side.recv(MESSAGE_BYTES))
    os.chdir(brief.folder)
    zygote = _Zygote(side, brief)
    while zygote.serves(control):
        zygote.obey()
    zygote.end()


class _Ending(NamedTuple):
    """Who asked how a child ends, and when it is killed where it has not."""

    side: socket.socket | None
    until: float


class _Zygote:
    """Every side begins with a reply that says whether the target could be loaded."""

    def __init__(self, side: socket.socket, brief: Brief) -> None:
        import torch

        from ..targets.builtin import load_target
        from ..targets.target import TargetError

        torch.set_num_threads(1)
        self._brief = brief
        self._sides: dict[int, socket.socket] = {}
        self._children: dict[int, int] = {}
        self._ending: dict[int, _Ending] = {}
        self._target = None
        self._greeting = Reply()
        try:
            if not brief.late:
                self._target = load_target(brief.target)
        except TargetError as error:
            self._greeting = Reply(error=str(error))
        gc.collect()
        gc.freeze()
        self._adopt(side)

    def serves(self, side: int) -> bool:
        """Whether somebody is still there behind the descriptor ``side``."""
        return side in self._sides

    def obey(self) -> None:
        """Wait for orders and carry them out; what takes time holds up nobody else."""
        wait = LOOK_SECONDS if self._ending else None
        for number in select.select(self._sides, (), (), wait)[0]:
            side = self._sides[number]
            try:
                data, descriptors, _, _ = socket.recv_fds(side, MESSAGE_BYTES, 4)
                if data:
                    self._carry_out(side, decode_order(data), descriptors)
                    continue
            except OSError:
                pass
            self._part_from(side)
        for child in list(self._ending):
            self._see_off(child)

    def _adopt(self, side: socket.socket) -> None:
        """Greet a side and serve it, unless nobody is behind it any more."""
        try:
            side.send(encode(self._greeting))
        except OSError:
            side.close()
            return
        self._sides[side.fileno()] = side

    def _part_from(self, side: socket.socket) -> None:
        number = side.fileno()
        for child in [child for child, owner in self._children.items() if owner == number]:
            os.kill(child, signal.SIGKILL)
            del self._children[child]
            self._ending[child] = _Ending(None, math.inf)
        del self._sides[number]
        side.close()

    def _carry_out(self, side: socket.socket, order: Order, descriptors: list[int]) -> None:
        match order:
            case Adopt():
                self._adopt(socket.socket(fileno=descriptors[0]))
            case Reap(process):
                self._children.pop(process, None)
                self._ending[process] = _Ending(side, time.monotonic() + REAP_SECONDS)
            case Fork():
                child = self._fork(order, descriptors)
                self._children[child] = side.fileno()
                side.send(encode(Reply(child)))

    def _see_off(self, child: int) -> None:
        """Where a child that is ending has ended, say how to who asked; kill it where it is late.

        The exit code is below 0 where it is a signal.
        """
        ending = self._ending[child]
        try:
            ended, status = os.waitpid(child, os.WNOHANG)
        except ChildProcessError:  # of a zygote before this one, and gone with it
            ended, status = child, signal.SIGKILL
        if not ended:
            if time.monotonic() > ending.until:
                os.kill(child, signal.SIGKILL)
                self._ending[child] = ending._replace(until=math.inf)
            return
        del self._ending[child]
        if ending.side is not None:
            with suppress(OSError):  # who asked is gone
                ending.side.send(encode(Reply(os.waitstatus_to_exitcode(status))))

    def _fork(self, order: Fork, descriptors: list[int]) -> int:
        parent = os.getpid()
        child = os.fork()
        if child == 0:
            for side in self._sides.values():
                side.close()
            self._be_child(parent, order, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        return child

    def _be_child(self, parent: int, order: Fork, descriptors: list[int]) -> NoReturn:
        """Serve until the other side hangs up."""
        import torch

        from ..targets.builtin import load_target
        from .child import Places, serve, settle_in

        status = 1
        try:
            connection, arena, progress, log = descriptors
            os.dup2(log, 2)
            settle_in(parent, heap=self._brief.heap)
            if order.gpu is not None:
                torch.cuda.set_device(order.gpu)
            target = self._target or load_target(self._brief.target)
            serve(Places(connection, arena, order.arena_bytes, progress), target)
            status = 0
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        finally:
            os._exit(status)

    def end(self) -> None:
        """Kill the children that are left."""
        for child in self._children:
            os.kill(child, signal.SIGKILL)
