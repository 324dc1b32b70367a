"""What it costs a passing case that its target runs in a process of its own, on busy cores."""

from __future__ import annotations

import multiprocessing
import os
from multiprocessing.synchronize import Barrier
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

import torch

from ..campaign.settings import WIDE_BATCH
from ..execution.fuzzer import Fuzzer
from ..execution.garbage import rare_collections
from ..isolation.deadline import TICKS
from ..isolation.loading import load_isolated
from ..targets.builtin import load_target

BATCHES = 2
"""Of a round, each way: long enough that processes that wait for each other lose little."""


class Spent(NamedTuple):
    """Seconds of the processor, of this process and all below it, and of the clock."""

    processor: float
    clock: float

    def plus(self, until: Spent, since: Spent) -> Spent:
        """And what was spent between two readings."""
        return Spent(
            self.processor + until.processor - since.processor,
            self.clock + until.clock - since.clock,
        )


def isolation_cost(name: str, *, seed: int, rounds: int, workers: int) -> str:
    """A line with the microseconds that a case takes isolated and not, on all cores at once.

    Every worker runs the same cases in both ways, together with the other workers: in each round
    isolated, not isolated twice, and isolated again, so that what changes meanwhile changes both.
    What counts is the processor's time: on busy cores a campaign has fewer cases for it. The ratio
    is the median of the rounds'.
    """
    context = multiprocessing.get_context("spawn")
    barrier, times = context.Barrier(workers), context.SimpleQueue()
    arguments = (name, seed, rounds, barrier, times)
    processes = [context.Process(target=_work, args=arguments) for _ in range(workers)]
    for process in processes:
        process.start()
    seen: list[tuple[Spent, Spent]] = [spent for _ in processes for spent in times.get()]
    for process in processes:
        process.join()
    plain, isolated = (
        median(spent[way].processor for spent in seen) / 2 / BATCHES / WIDE_BATCH * 1e6
        for way in range(2)
    )
    ratio = median(isolated.processor / plain.processor for plain, isolated in seen)
    by_clock = median(isolated.clock / plain.clock for plain, isolated in seen)
    return (
        f"isolated: {isolated:,.0f} us of the processor a case, not isolated {plain:,.0f} us: "
        f"{ratio:.2f} times, by the clock {by_clock:.2f} times "
        f"(medians of {len(seen)} rounds on {workers} cores at once)"
    )


@rare_collections()
def _work(name: str, seed: int, rounds: int, barrier: Barrier, times: Any) -> None:
    torch.set_num_threads(1)
    ways = Fuzzer(load_target(name)), Fuzzer(load_isolated(name))
    seen = []
    for number in range(rounds + 1):
        spent = [Spent(0.0, 0.0)] * 2
        for way in (1, 0, 0, 1):
            barrier.wait()
            before = _spent()
            for batch in range(number * BATCHES, (number + 1) * BATCHES):
                indices = range(batch * WIDE_BATCH, (batch + 1) * WIDE_BATCH)
                ways[way].failing(ways[way].generate(seed, indices, "valid"))
            spent[way] = spent[way].plus(_spent(), before)
        if number:
            seen.append((spent[0], spent[1]))
    ways[1].close()
    times.put(seen)


def _spent() -> Spent:
    return Spent(_processor_seconds(os.getpid()), perf_counter())


def _processor_seconds(process: int) -> float:
    """Of a process and all below it, also of those that have ended."""
    fields = Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return sum(map(int, fields[11:15])) / TICKS + sum(map(_processor_seconds, map(int, children)))
