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
    before the first case has ended, ten times as much of the clock is granted, and of the
    processor too where the target ``builds`` in its own process. Such a target's first launches in
    every further process are granted ten times what those in earlier processes took, up to that.
    """

    floor: float
    builds: bool = False
    _seconds: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))
    _first: float = 0.0

    def learn(self, seconds: float, cases: int, *, fresh: bool = False) -> None:
        """Count ``cases`` that took ``seconds`` of processor time, in a ``fresh`` process or not.

        All of them together.
        """
        self._seconds.append(seconds / cases)
        if fresh:
            self._first = max(self._first, seconds)

    def passed(self, busy: float, elapsed: float, *, fresh: bool = False) -> bool:
        """Whether a launch hangs that used ``busy`` seconds of processor time in ``elapsed``.

        ``fresh`` is whether its process has not ended a request yet.
        """
        usual = median(self._seconds) if self._seconds else 0.0
        allowed = max(self.floor, MANY * usual)
        patience = self._patience(allowed, fresh)
        if busy > allowed * (patience if self.builds else 1):
            return True
        return elapsed > max(IDLE_FACTOR * allowed * patience, MANY * busy)

    def _patience(self, allowed: float, fresh: bool) -> float:
        if not self._seconds:
            return FIRST
        if fresh and self.builds:
            return min(FIRST, max(1.0, FIRST * self._first / allowed))
        return 1.0


def processor_seconds(process: int) -> float:
    """The processor time that a process has used. Raises OSError where it is gone."""
    fields = Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS
