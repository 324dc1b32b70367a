"""What it costs a passing case that its target runs in a process of its own, on busy cores."""

from __future__ import annotations

import multiprocessing
from multiprocessing.synchronize import Barrier
from statistics import median
from time import perf_counter
from typing import Any

import torch

from ..execution.fuzzer import Fuzzer
from ..isolation.loading import load_isolated
from ..targets.builtin import load_target

BATCH = 128
BATCHES = 8
"""Of a round: long enough that processes that wait for each other lose little."""


def isolation_cost(name: str, *, seed: int, rounds: int, workers: int) -> str:
    """A line with the microseconds that a case takes isolated and not, on all cores at once.

    Every worker runs the same cases in both ways, in turn and together with the others.
    """
    context = multiprocessing.get_context("spawn")
    barrier, times = context.Barrier(workers), context.SimpleQueue()
    arguments = (name, seed, rounds, barrier, times)
    processes = [context.Process(target=_work, args=arguments) for _ in range(workers)]
    for process in processes:
        process.start()
    seen = [times.get() for _ in processes]
    for process in processes:
        process.join()
    plain, isolated = (
        median(seconds for worker in seen for seconds in worker[way]) / BATCHES / BATCH * 1e6
        for way in range(2)
    )
    return (
        f"isolated: {isolated:,.0f} us a case, not isolated {plain:,.0f} us: "
        f"{isolated / plain:.2f} times (medians of {rounds} rounds on {workers} cores at once)"
    )


def _work(name: str, seed: int, rounds: int, barrier: Barrier, times: Any) -> None:
    torch.set_num_threads(1)
    ways = Fuzzer(load_target(name)), Fuzzer(load_isolated(name))
    seconds: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds + 1):
        for fuzzer, kept in zip(ways, seconds, strict=True):
            barrier.wait()
            started = perf_counter()
            for batch in range(number * BATCHES, (number + 1) * BATCHES):
                indices = range(batch * BATCH, (batch + 1) * BATCH)
                fuzzer.failing(fuzzer.generate(seed, indices, "valid"))
            if number:
                kept.append(perf_counter() - started)
    ways[1].close()
    times.put(seconds)
