"""What a simplifying pass works on, and the searches that passes share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from ..case import Case
from .order import magnitude
from .sites import SHORT

Span = tuple[int, int]
"""Indices from the first up to but not including the second."""


class Problem(Protocol):
    """A failing case that a pass tries to make simpler."""

    @property
    def case(self) -> Case:
        """The simplest case so far that fails."""
        ...

    def attempt(self, candidate: Case) -> bool:
        """Make ``candidate`` the case if it is a legal, simpler one that fails; say whether."""
        ...


Pass = Callable[[Problem], None]

FEW_SPANS = 128
_SMALL = (0, 1, -1, 2, -2, 3)
_EDGES = (
    *(2**bits for bits in (8, 16, 24, 31, 32, 40, 48, 56)),
    2**32 + 1,
    2**63 - 1,
    -(2**31) - 1,
    -(2**63),
)
_SHIFTS = (32, 16, 8, 4, 2, 1)


def first(problem: Problem, candidates: Iterable[Case]) -> bool:
    """Attempt candidates until one is taken."""
    return any(problem.attempt(candidate) for candidate in candidates)


def remove(spans: Sequence[Span], attempt: Callable[[list[Span]], bool]) -> None:
    """Remove as many of the disjoint, ascending spans as possible.

    ``attempt`` is given spans, in the numbering of before the first removal, that are to be absent
    together with all those that it accepted earlier. A run of removable spans costs a number of
    tries that is logarithmic in its length. Of more than FEW_SPANS no single ones are tried, since
    a later call finds fewer.
    """
    kept = list(spans)
    gone: list[Span] = []
    size = len(kept)
    finest = 1 if size <= FEW_SPANS else size * 2 // FEW_SPANS
    while size >= finest:
        stop = len(kept)
        while stop > 0:
            start = max(0, stop - size)
            if attempt(sorted(gone + kept[start:stop])):
                gone += kept[start:stop]
                del kept[start:stop]
            stop = start
        size //= 2


def spans_of(length: int, explicit_head: int, explicit_tail: int) -> list[Span]:
    """All of ``range(length)``: one by one at both ends, in halves of halves between them."""
    if length <= SHORT:
        return [(index, index + 1) for index in range(length)]
    start = min(explicit_head, length)
    stop = max(start, length - explicit_tail)
    spans = [(index, index + 1) for index in range(start)]
    while start < stop:
        half = start + (stop - start + 1) // 2
        spans.append((start, half))
        start = half
    return spans + [(index, index + 1) for index in range(start, length)]


def least(low: int, high: int, attempt: Callable[[int], bool]) -> None:
    """Lower a count from ``high`` towards ``low``, as if fewer failing meant that more fail too."""
    if low >= high or attempt(low):
        return
    step = 1
    while high - low > 1:
        middle = min(low + step, (low + high) // 2)
        if attempt(middle):
            high = middle
        else:
            low, step = middle, step * 4


def descend(number: int, attempt: Callable[[int], bool], neutral: int = 0) -> None:
    """Bring a number towards ``neutral``: small ones, edges of widths, then shifts and halving.

    The halving takes failing to be monotone in the magnitude.
    """
    tried = {0, *_EDGES, *(neutral + small for small in _SMALL)}
    passing = 0
    for target in sorted(tried, key=lambda candidate: magnitude(candidate - neutral)):
        if magnitude(target - neutral) >= magnitude(number - neutral):
            break
        if attempt(target):
            number = target
            break
        passing = max(passing, abs(target - neutral))
    sign = -1 if number < neutral else 1
    size = abs(number - neutral)
    shifted = [size >> shift for shift in _SHIFTS if size >> shift > passing]
    failing = next((less for less in shifted if attempt(neutral + sign * less)), size)
    _halve(passing, failing, lambda less: attempt(neutral + sign * less))


def _halve(passing: int, failing: int, attempt: Callable[[int], bool]) -> None:
    if failing - passing < 2 or not attempt(failing - 1):
        return
    failing -= 1
    while failing - passing > 1:
        middle = (passing + failing) // 2
        if attempt(middle):
            failing = middle
        else:
            passing = middle
