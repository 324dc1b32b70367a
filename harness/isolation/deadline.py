"""When a launch that does not end is hanging: by its own processor time, not by the clock."""

from __future__ import annotations

import os
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

MANY = 200
"""How many times the median of what a case took before a launch may take."""

IDLE_FACTOR = 30
FIRST = 10
KEPT = 64
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Deadline:
    """How long a launch may take without an end, learned from the cases before.

    ``floor`` seconds of processor time are always granted, and ``IDLE_FACTOR`` times as many of
    the clock to a process that uses no processor. A first launch may have something to build:
    before the first case has ended, ten times as much of the clock is granted. Where the target
    ``builds`` in its own process, each process has to: before its first answer, it is granted ten
    times as much of both, or ten times what the first answers of others took where that is less.
    """

    floor: float
    builds: bool = False
    _seconds: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))
    _first: float | None = None

    def learn(self, seconds: float, cases: int, *, fresh: bool = False) -> None:
        """Count ``cases`` that took ``seconds`` of processor time together.

        ``fresh`` says of their process that they were its first.
        """
        self._seconds.append(seconds / cases)
        if fresh:
            self._first = max(self._first or 0.0, seconds)

    def passed(self, busy: float, elapsed: float, *, fresh: bool) -> bool:
        """Whether a launch hangs that used ``busy`` seconds of processor time in ``elapsed``.

        ``fresh`` says of its process that it has answered nothing yet.
        """
        usual = median(self._seconds) if self._seconds else 0.0
        allowed = max(self.floor, MANY * usual)
        building = fresh and self.builds
        patience = self._patience(allowed) if building else 1
        if busy > allowed * patience:
            return True
        patience = patience if building or self._seconds else FIRST
        return elapsed > max(IDLE_FACTOR * allowed * patience, MANY * busy)

    def _patience(self, allowed: float) -> float:
        """How many times as much as is ``allowed`` a process gets that has something to build."""
        if self._first is None:
            return FIRST
        return min(FIRST, max(1.0, FIRST * self._first / allowed))


def processor_seconds(process: int) -> float:
    """The processor time that a process has used. Raises OSError where it is gone."""
    fields = Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS
