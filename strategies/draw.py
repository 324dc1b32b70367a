"""The drawing interface: all randomness of the grammar goes through these few methods.

Two drivers offer it: `prng` (fast, for campaigns) and `hypothesis_driver` (for ``@given``). Every
method lists or orders its results so that the simplest comes first, which is what makes a
Hypothesis example shrink well: ``low`` before ``high``, ``False`` before ``True``, the first option
before the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

Option = TypeVar("Option")


class Draw(Protocol):
    """A source of choices. All bounds are inclusive."""

    def integer(self, low: int, high: int) -> int:
        """One integer."""
        ...

    def integers(self, count: int, low: int, high: int) -> list[int]:
        """``count`` independent integers."""
        ...

    def chance(self, percent: float) -> bool:
        """True in about ``percent`` of 100 draws."""
        ...

    def choice(self, options: Sequence[Option]) -> Option:
        """One of ``options``, which is not empty; repeat an option to give it weight."""
        ...

    def distinct(self, count: int, low: int, high: int) -> list[int]:
        """``count`` different integers in random order; ``count`` is at most the span."""
        ...

    def seed64(self) -> int:
        """An integer of 64 bits, unsigned."""
        ...


def spread(*weighted: tuple[Option, int]) -> tuple[Option, ...]:
    """The options, each repeated by its weight: a table for `Draw.choice`."""
    return tuple(option for option, weight in weighted for _ in range(weight))
