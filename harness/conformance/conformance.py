"""Running the checks on a target, in a process that may die without taking the answer with it."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Iterator
from multiprocessing.connection import Connection

import torch

from ..targets.builtin import load_target
from ..targets.target import TargetError
from .checks import CHECKS, NEEDED_FIRST, Check

LOADED = "it can be loaded, and claims what there is to claim"


def conformance(name: str) -> Iterator[Check]:
    """Each check of the target called ``name`` as it is made."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(name, sender))
    process.start()
    sender.close()
    while True:
        try:
            check = receiver.recv()
        except EOFError:
            break
        if check is None:
            break
        yield check
    process.join()
    if process.exitcode:
        ended = f"it ended the {_end(process.exitcode)}"
        yield Check("the next check comes to its end", "missing", (ended,))


def _end(code: int) -> str:
    how = signal.Signals(-code).name if code < 0 else f"exit status {code}"
    return f"process: {how}; kv-canary-fuzz run finds and shrinks the case that does it"


def _run(name: str, reports: Connection) -> None:
    torch.set_num_threads(1)
    try:
        target = load_target(name)
    except TargetError as error:
        reports.send(Check(LOADED, "missing", (str(error),)))
        reports.send(None)
        return
    reports.send(Check(LOADED, "ok"))
    for number, check in enumerate(CHECKS):
        seen = check(target)
        reports.send(seen)
        if seen.state == "missing" and number < NEEDED_FIRST:
            break
    reports.send(None)
