"""What a campaign, or a part of one, has seen so far."""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np
from msgspec import Struct, field

MOST_BUCKETS = 120
"""Points of one worker's pace; a longer campaign has wider ones."""


class Sighting(Struct):
    """How often a signature was met, and the lowest case index that showed it."""

    count: int
    first_index: int


class Pace(Struct):
    """One worker's cases over time, in buckets of ``bucket`` seconds from ``began`` (Unix time).

    ``ended`` is when its last batch did, or when it began.
    """

    began: float = field(default_factory=time.time)
    bucket: float = 0.5
    cases: list[float] = field(default_factory=list)
    ended: float = 0.0

    def add(self, cases: int, now: float) -> None:
        """Count ``cases`` that ended at ``now``, spread over the time since those before."""
        start = max(self.ended, self.began) - self.began
        end = max(now - self.began, start)
        while end >= self.bucket * MOST_BUCKETS:
            pairs = [*self.cases, 0.0][: (len(self.cases) + 1) // 2 * 2]
            self.cases = [a + b for a, b in zip(pairs[::2], pairs[1::2], strict=True)]
            self.bucket *= 2
        last = int(end / self.bucket)
        self.cases += [0.0] * (last + 1 - len(self.cases))
        for position in range(int(start / self.bucket), last + 1):
            inside = min(end, (position + 1) * self.bucket) - max(start, position * self.bucket)
            self.cases[position] += cases * (inside / (end - start) if end > start else 1.0)
        self.ended = self.began + end


class Tally(Struct):
    """Counts that add up: cases, seconds of one core's work, features, findings by signature.

    ``pairs`` is a packed `coverage.Pairs`, ``reached`` holds the indices of cases that first met
    a pair of features in their process, ``paces`` has one entry for each process. ``last`` is the
    first case of the last batch that is counted. ``interrupted`` says that a person ended it.
    ``quarantined`` counts the cases that the ledger kept from being launched, ``held_back`` those
    that a finding of this run did. ``outgrown`` counts processes of the target that were replaced
    because their memory had grown. ``unwritten`` has a line for each file that could not be
    written: what ends a process's part.
    """

    cases: int = 0
    seconds: float = 0.0
    features: dict[str, int] = field(default_factory=dict)
    findings: dict[str, Sighting] = field(default_factory=dict)
    pairs: bytes = b""
    reached: list[int] = field(default_factory=list)
    paces: list[Pace] = field(default_factory=list)
    last: int | None = None
    interrupted: bool = False
    quarantined: int = 0
    held_back: int = 0
    outgrown: int = 0
    unwritten: list[str] = field(default_factory=list)

    def sight(self, signature: str, index: int, count: int = 1) -> None:
        known = self.findings.get(signature)
        if known is None:
            self.findings[signature] = Sighting(count, index)
        else:
            known.count += count
            known.first_index = min(known.first_index, index)

    def count_features(self, counts: Mapping[str, int]) -> None:
        for name, count in counts.items():
            self.features[name] = self.features.get(name, 0) + count

    def add(self, other: Tally) -> None:
        self.cases += other.cases
        self.seconds += other.seconds
        self.count_features(other.features)
        for signature, sighting in other.findings.items():
            self.sight(signature, sighting.first_index, sighting.count)
        self.pairs = _union(self.pairs, other.pairs)
        self.reached += other.reached
        self.paces += other.paces
        self.interrupted |= other.interrupted
        self.quarantined += other.quarantined
        self.held_back += other.held_back
        self.outgrown += other.outgrown
        self.unwritten += other.unwritten

    def progress(self) -> Tally:
        """What a reader of progress needs: the counts alone."""
        return Tally(self.cases, self.seconds, self.features, self.findings)


def _union(first: bytes, second: bytes) -> bytes:
    if not first or not second:
        return first or second
    return np.bitwise_or(np.frombuffer(first, np.uint8), np.frombuffer(second, np.uint8)).tobytes()
