"""Cases per second over time, one line for each worker."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from kv_canary_fuzz.harness.campaign.summary import Timing, WorkerPace

LEFT, RIGHT, TOP, BOTTOM = 52, 74, 26, 34
HEIGHT = 230
MOST_NAMED = 6
"""Workers that get a line style and a name of their own; of more, the mean is named."""


class Tick(NamedTuple):
    at: float
    text: str


class Curve(NamedTuple):
    """A polyline; ``style`` numbers its dash pattern, -1 is a plain thin one."""

    points: str
    style: int
    name: str
    name_y: float
    end_x: float


class ThroughputDrawing(NamedTuple):
    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    x_title: str
    curves: list[Curve]


def draw_throughput(timing: Timing, width: float) -> ThroughputDrawing | None:
    """The chart; None where no worker ran for long enough to have a rate."""
    workers = [worker for worker in timing.workers if worker.rates]
    if not workers:
        return None
    end = max(w.began + w.bucket * len(w.rates) for w in workers)
    top_rate = max(max(w.rates) for w in workers)
    unit, per_unit = ("minutes", 60.0) if end > 180 else ("seconds", 1.0)
    x_steps, x_max = _nice(end / per_unit, 4 if width < 500 else 8)
    y_steps, y_max = _nice(top_rate, 4)
    right, bottom = width - RIGHT, HEIGHT - BOTTOM

    def x(seconds: float) -> float:
        return round(LEFT + (right - LEFT) * seconds / per_unit / x_max, 1)

    def y(rate: float) -> float:
        return round(bottom - (bottom - TOP) * rate / y_max, 1)

    curves = []
    named = len(workers) <= MOST_NAMED
    for number, worker in enumerate(workers):
        points = [(x(seconds), y(rate)) for seconds, rate in _points(worker)]
        name = f"worker {number + 1}" if named else ""
        curves.append(_curve(points, number if named else -1, name))
    if not named:
        points = [(x(seconds), y(rate)) for seconds, rate in _mean(workers, end)]
        curves.append(_curve(points, 0, "mean"))
    return ThroughputDrawing(
        width,
        HEIGHT,
        LEFT,
        right,
        TOP,
        bottom,
        [Tick(x(value * per_unit), f"{value:g}") for value in x_steps],
        [Tick(y(value), f"{value:,g}") for value in y_steps],
        f"{unit} since the first worker began",
        _spread(curves, bottom),
    )


def _points(worker: WorkerPace) -> list[tuple[float, float]]:
    """A rate stands in the middle of its bucket."""
    return [(worker.began + (k + 0.5) * worker.bucket, rate) for k, rate in enumerate(worker.rates)]


def _mean(workers: Sequence[WorkerPace], end: float) -> list[tuple[float, float]]:
    count = 60
    points = []
    for k in range(count):
        at = (k + 0.5) * end / count
        rates = [
            w.rates[int((at - w.began) / w.bucket)]
            for w in workers
            if w.began <= at < w.began + w.bucket * len(w.rates)
        ]
        if rates:
            points.append((at, sum(rates) / len(rates)))
    return points


def _curve(points: list[tuple[float, float]], style: int, name: str) -> Curve:
    if len(points) == 1:
        points = [(points[0][0] - 4, points[0][1]), (points[0][0] + 4, points[0][1])]
    text = " ".join(f"{a},{b}" for a, b in points)
    return Curve(text, style, name, points[-1][1] + 4, points[-1][0] + 6)


def _spread(curves: list[Curve], bottom: float) -> list[Curve]:
    """The curves with their names moved apart where they would overlap."""
    placed: list[Curve] = []
    last = -math.inf
    for curve in sorted(curves, key=lambda c: c.name_y):
        if not curve.name:
            placed.append(curve)
            continue
        last = max(curve.name_y, last + 14)
        placed.append(curve._replace(name_y=last))
    over = max(0.0, last - bottom)
    return [curve._replace(name_y=curve.name_y - over) if curve.name else curve for curve in placed]


def _nice(largest: float, most: int) -> tuple[list[float], float]:
    """Round axis values from 0 on, at most ``most`` steps, and the last of them."""
    raw = max(largest, 1e-9) / most
    scale = 10.0 ** math.floor(math.log10(raw))
    step = next(scale * factor for factor in (1, 2, 2.5, 5, 10) if scale * factor >= raw * 0.999)
    count = math.ceil(largest / step - 1e-9) or 1
    return [round(step * k, 6) for k in range(count + 1)], round(step * count, 6)
