"""The fast driver: a case from a campaign seed and an index alone.

Only ``random.Random(int).random()`` is used, whose sequence Python promises to keep, so a case is
the same in every process and version as long as the grammar is.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

from kv_canary_fuzz.reference.contract import DOCUMENTED, Contract

from .case import Case
from .grammar.grammar import draw_case

Option = TypeVar("Option")

_MASK = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15
_DIRECT_SPAN = 2**48


class PrngDraw:
    """`Draw` over one pseudo-random stream."""

    __slots__ = ("_random",)

    def __init__(self, seed: int) -> None:
        """``seed`` is any integer that is not negative."""
        self._random = Random(seed).random

    def integer(self, low: int, high: int) -> int:
        """One integer, both bounds included."""
        span = high - low + 1
        if span <= _DIRECT_SPAN:
            return low + int(self._random() * span)
        return low + self.seed64() % span

    def integers(self, count: int, low: int, high: int) -> list[int]:
        """``count`` independent integers."""
        span = high - low + 1
        random = self._random
        if span <= _DIRECT_SPAN:
            return [low + int(random() * span) for _ in range(count)]
        return [low + self.seed64() % span for _ in range(count)]

    def chance(self, percent: float) -> bool:
        """True in ``percent`` of 100 draws."""
        return self._random() * 100.0 < percent

    def choice(self, options: Sequence[Option]) -> Option:
        """One of the options, all alike."""
        return options[int(self._random() * len(options))]

    def distinct(self, count: int, low: int, high: int) -> list[int]:
        """``count`` different integers, as the head of a shuffle."""
        pool = list(range(low, high + 1))
        size = len(pool)
        random = self._random
        for i in range(count):
            j = i + int(random() * (size - i))
            pool[i], pool[j] = pool[j], pool[i]
        return pool[:count]

    def seed64(self) -> int:
        """An integer of 64 bits, unsigned."""
        random = self._random
        return int(random() * 4294967296.0) << 32 | int(random() * 4294967296.0)


def splitmix64(x: int) -> int:
    """The splitmix64 finaliser of an unsigned 64-bit integer."""
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & _MASK
    return x ^ x >> 31


def stream_seed(seed: int, index: int) -> int:
    """The seed of case ``index`` of a campaign: neighbours are unrelated."""
    return splitmix64(splitmix64(seed + _GOLDEN & _MASK) + (index + 1) * _GOLDEN & _MASK)


def case_at(seed: int, index: int, domain: str = "valid", contract: Contract = DOCUMENTED) -> Case:
    """Case ``index`` of campaign ``seed``; needs no other case. Raises ValueError for a domain."""
    return draw_case(PrngDraw(stream_seed(seed, index)), domain, contract)
