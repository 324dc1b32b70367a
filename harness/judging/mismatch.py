"""One difference between two outcomes, in the contract's terms."""

from __future__ import annotations

from enum import IntEnum

from msgspec import Struct

from kv_canary_fuzz.reference import FailReason
from kv_canary_fuzz.strategies.case import CorruptStep, Step, WriteStep

MOST_DIFFERENCES = 256
"""Differences of one region that are explained; a reader needs the first ones."""


class Rank(IntEnum):
    """Where a kind of difference stands among causes: a consequence never precedes its cause."""

    EXCEPTION = 0
    STAMP = 1
    ROW = 2
    INDEX = 3
    COUNTER = 4
    INPUT = 5
    GUARD = 6


class Mismatch(Struct, frozen=True):
    """A difference after one step.

    ``kind`` is what makes two differences the same bug; ``place`` says where it is, for a reader.
    ``region`` and ``offset`` say which byte differs first, where there is one. ``rows`` are the
    violation rows that are compared, where it is about rows; None is a row that a side lacks.
    """

    rank: Rank
    order: tuple[int, ...]
    kind: str
    place: str
    expected: str
    found: str
    region: str = ""
    offset: int = 0
    rows: tuple[tuple[int, ...] | None, tuple[int, ...] | None] | None = None

    def line(self) -> str:
        return f"{self.place}: expected {self.expected}, found {self.found}"


def first_cause(mismatches: list[Mismatch]) -> list[Mismatch]:
    """The mismatches, causes before consequences."""
    return sorted(mismatches, key=lambda m: (m.rank, m.order))


def step_kind(step: Step) -> str:
    if isinstance(step, CorruptStep):
        return "corrupt"
    return "write" if isinstance(step, WriteStep) else "verify"


def bits_text(bits: int) -> str:
    """Fail bits by name, e.g. ``4 (VERIFY_REAL_KV_HASH_MISMATCH)``."""
    names = [reason.name or "" for reason in FailReason if reason & bits]
    return f"{bits} ({' | '.join(names)})" if names else str(bits)


def hash_text(value: int) -> str:
    """A signed 64-bit hash as 16 hex digits."""
    return f"0x{value % 2**64:016x}"
