"""Times of captured graphs on the current GPU: medians, in microseconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from time import perf_counter
from typing import Any

import torch

BUDGET_US = 40_000.0
LEAST_ROUNDS = 5
MOST_ROUNDS = 200

HOST_LAUNCHES = 300

Launch = Callable[[], None]


def captured(launch: Launch) -> torch.cuda.CUDAGraph:
    """A graph of one launch, which must have been made once before."""
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    stream: Any = torch.cuda.Stream
    with torch.cuda.stream(stream()):
        graph.capture_begin()
        launch()
        graph.capture_end()
    return graph


def median_us(graphs: Sequence[torch.cuda.CUDAGraph], hold: Launch) -> float:
    """The median time of a replay, the graphs taken in turn.

    ``hold`` keeps the device busy for some milliseconds, so that the host is far ahead when the
    first replay begins and its own speed is not measured.
    """
    first = _replay_times(graphs, len(graphs), hold)
    rounds = min(max(int(BUDGET_US / median(first)), LEAST_ROUNDS), MOST_ROUNDS)
    return median(_replay_times(graphs, rounds, hold))


def _replay_times(graphs: Sequence[torch.cuda.CUDAGraph], rounds: int, hold: Launch) -> list[float]:
    events = [(_event(), _event()) for _ in range(rounds)]
    torch.cuda.synchronize()
    hold()
    for place, (start, end) in enumerate(events):
        start.record()
        graphs[place % len(graphs)].replay()
        end.record()
    torch.cuda.synchronize()
    return [start.elapsed_time(end) * 1000 for start, end in events]


def host_us(launch: Launch) -> float:
    """What a launch takes on the host, the device being left to follow."""
    torch.cuda.synchronize()
    seconds = []
    for _ in range(HOST_LAUNCHES):
        started = perf_counter()
        launch()
        seconds.append(perf_counter() - started)
    torch.cuda.synchronize()
    return median(seconds) * 1e6


def copy_bytes_per_us(size: int = 1 << 32) -> float:
    """Bytes read and written in a microsecond by a copy within the device."""
    source = torch.empty(size // 8, dtype=torch.int64, device="cuda").random_()
    target = torch.empty_like(source)
    times: list[float] = []
    for _ in range(LEAST_ROUNDS + 2):
        start, end = _event(), _event()
        start.record()
        target.copy_(source)
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) * 1000)
    return 2 * size / median(times[2:])


def _event() -> Any:
    event: Any = torch.cuda.Event
    return event(enable_timing=True)
