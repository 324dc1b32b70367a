"""What a disposable process does: launch after launch, saying before each where it is."""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import signal
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from kv_canary_fuzz.strategies.case import Case

from ..execution.arena import Batch, batch_of, lay_out_batch
from ..execution.execution import run_target
from ..execution.garbage import GARBAGE_THRESHOLD
from ..execution.layout import Layout
from ..execution.outcome import Raised
from ..execution.stepping import Stepper
from ..execution.tensors import Memory
from ..targets.devices import is_crowded, synchronizer
from ..targets.memory import own_memory
from ..targets.target import Launcher, Target
from .protocol import (
    BareRequest,
    Doomed,
    Ended,
    Outcomes,
    RunBareCases,
    RunBareSteps,
    decode_request,
    encode,
)
from .sentence import Doom, Sentence, awaited, nothing
from .shared import (
    CASE,
    COUNT,
    LAUNCH,
    LOADED,
    PROGRESS_BYTES,
    STEP,
    VERIFY,
    WRITE,
    SharedMemory,
    Words,
)

DOOMED_STATUS = 87
_PR_SET_PDEATHSIG = 1


class Places(NamedTuple):
    """Inherited descriptors: where requests come from, and memory that both sides see."""

    connection: int
    arena: int
    arena_bytes: int
    progress: int


def serve(places: Places, target: Target) -> None:
    """Answer requests until the other side hangs up or a launch spoils the process."""
    connection = Connection(places.connection)
    progress = SharedMemory(PROGRESS_BYTES, places.progress).words
    arena = SharedMemory(places.arena_bytes, places.arena)
    worker = _Worker(target, arena, progress)
    sentence = Sentence(lambda: resource.getrlimit(resource.RLIMIT_DATA)[0] < 0)
    progress[LOADED] = 1
    while True:
        try:
            request = decode_request(connection.recv_bytes())
        except EOFError:
            if target.leave is not None:
                target.leave()
            return
        try:
            with sentence:
                answer = worker.answer(request)
            connection.send_bytes(encode(answer))
        except Doom as doom:
            connection.send_bytes(encode(Doomed(doom.kind, str(doom))))
            os._exit(DOOMED_STATUS)


class _Worker:
    """Has the target launch by launch, and another one that waits for each launch to end."""

    def __init__(self, target: Target, arena: SharedMemory, progress: Words) -> None:
        self._wait = awaited(synchronizer(target))
        self._target = watched(target, progress, nothing)
        self._stepwise = watched(target, progress, self._wait)
        self._arena = arena
        self._progress = progress

    def answer(self, request: BareRequest) -> Ended:
        match request:
            case RunBareCases(cases, layouts, stepwise):
                return Ended(self._run(batch_of(cases, layouts), stepwise=stepwise))
            case RunBareSteps(case):
                return Ended(self._run_steps(case))

    def _run(self, batch: Batch, *, stepwise: bool) -> Outcomes:
        memory = self._memory(batch.size)

        def begin(position: int) -> None:
            if stepwise:
                self._wait()
            self._progress[CASE] = position
            self._fence(batch.size, batch.layouts[position], batch.bases[position])

        run = run_target(self._stepwise if stepwise else self._target, batch, memory, begin)
        self._wait()
        self._fence(batch.size)
        memory.read_into(self._arena.bytes[: batch.size])
        return tuple((*key, *_text(outcome)) for key, outcome in run.raised.items())

    def _run_steps(self, case: Case) -> Outcomes:
        batch = lay_out_batch([case])
        layout, size = batch.layouts[0], batch.size
        memory = self._memory(size)
        self._progress[CASE] = 0
        self._fence(size * (len(case.steps) + 1))  # an earlier batch may have closed more
        stepper = Stepper(case, layout, self._stepwise, memory)
        raised = []
        for number in range(len(case.steps)):
            self._progress[STEP] = number
            self._fence(size, layout)
            outcome = stepper.advance(number)
            if outcome is not None:
                raised.append((0, number, *_text(outcome)))
            self._wait()
            self._fence(size)
            memory.read_into(self._arena.bytes[:size])
            place = slice(size * (number + 1), size * (number + 2))
            self._arena.bytes[place] = self._arena.bytes[:size]
        return tuple(raised)

    def _fence(self, size: int, layout: Layout | None = None, base: int = 0) -> None:
        """Let a sanitized launch touch the regions of one case only; without one, all ``size``."""
        if self._target.fence is not None:
            parts = (
                ((base + region.offset, region.size) for region in layout.regions.values())
                if layout
                else ((0, size),)
            )
            self._target.fence(self._arena.bytes.ctypes.data, size, parts)

    def _memory(self, size: int) -> Memory:
        with own_memory("the bytes of a batch"):
            return Memory(self._arena.bytes[:size], self._target.device)


def watched(target: Target, progress: Words, wait: Callable[[], None]) -> Target:
    """The target with launchers that say where they are, ``wait``, and end on a fatal error."""
    sentence = Sentence(partial(is_crowded, target))

    def with_words(launcher: Launcher, kind: int) -> Launcher:
        def launch(**arguments: Any) -> None:
            progress[LAUNCH] = kind
            progress[COUNT] += 1
            with sentence:
                launcher(**arguments)
                wait()

        return launch

    return replace(
        target, write=with_words(target.write, WRITE), verify=with_words(target.verify, VERIFY)
    )


def _text(outcome: Raised) -> tuple[str, str]:
    kind, message = (part.encode(errors="replace").decode() for part in outcome)
    return kind, message


def settle_in(parent: int, *, heap: int | None) -> None:
    """Die with the process ``parent``, leave no core file, and take no more than ``heap`` bytes.

    Where memory runs out for all, this process is the one to go.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)
    gc.set_threshold(GARBAGE_THRESHOLD)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if heap is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (heap, heap))
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
