"""The Hypothesis driver: `cases` is the grammar as a strategy for ``@given``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeVar

import numpy as np
from hypothesis import strategies as st

from kv_canary_fuzz.reference.contract import DOCUMENTED, Contract

from .case import Case
from .content import expand_words
from .grammar.grammar import draw_case

Option = TypeVar("Option")

_BULK = 24
"""Above this many integers at once, a seed is drawn and expanded: an example must stay small."""


@lru_cache(maxsize=4096)
def _integers(low: int, high: int) -> st.SearchStrategy[int]:
    return st.integers(low, high)


class HypothesisDraw:
    """`Draw` over the draw function of a composite strategy."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def integer(self, low: int, high: int) -> int:
        """One integer; shrinks towards ``low``, or to 0 where the bounds allow it."""
        return low if low == high else self._draw(_integers(low, high))

    def integers(self, count: int, low: int, high: int) -> list[int]:
        """``count`` integers, drawn one by one while they are few."""
        if count <= _BULK:
            return [self.integer(low, high) for _ in range(count)]
        words = expand_words(
            np.full(count, self.seed64(), dtype=np.uint64), np.arange(count, dtype=np.uint64)
        )
        return [low + word % (high - low + 1) for word in words.tolist()]

    def chance(self, percent: float) -> bool:
        """A boolean; shrinks towards False."""
        return self.integer(0, 999) >= 1000 - round(percent * 10)

    def choice(self, options: Sequence[Option]) -> Option:
        """One of the options; shrinks towards the first."""
        return options[self.integer(0, len(options) - 1)]

    def distinct(self, count: int, low: int, high: int) -> list[int]:
        """``count`` different integers; shrinks towards ascending order from ``low``."""
        pool = list(range(low, high + 1))
        swaps = self.integers(count, 0, 2**32 - 1) if count > _BULK else None
        for i in range(count):
            left = len(pool) - i
            j = i + (swaps[i] % left if swaps is not None else self.integer(0, left - 1))
            pool[i], pool[j] = pool[j], pool[i]
        return pool[:count]

    def seed64(self) -> int:
        """An integer of 64 bits; shrinks towards 0."""
        return self.integer(0, 2**64 - 1)


@st.composite
def _cases(draw: st.DrawFn, domain: str, contract: Contract) -> Case:
    return draw_case(HypothesisDraw(draw), domain, contract)


def cases(domain: str = "valid", contract: Contract = DOCUMENTED) -> st.SearchStrategy[Case]:
    """Cases of a domain (see `grammar.DOMAINS`), shrinking towards few and simple steps."""
    return _cases(domain, contract)
