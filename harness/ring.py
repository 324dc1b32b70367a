"""When two violation rings are equal: the rule of the contract, section 6.

The order of the rows of one launch is unspecified, and so is which of them are stored when they do
not all fit. Rows are compared whole, never column by column.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from .outcome import Rows

Row = tuple[int, ...]


class RingDifference(NamedTuple):
    """Rows of one launch that should have been stored and were not, and the other way round."""

    step: int
    missing: tuple[Row, ...]
    extra: tuple[Row, ...]


def stored_positions(write_index: int, produced: int, capacity: int) -> list[int]:
    """Ring rows that ``produced`` appends from ``write_index`` (int32, wrapping) on store to."""
    first = write_index
    if first < 0:
        skipped = -first
        return list(range(min(capacity, max(0, produced - skipped))))
    until_wrap = 2**31 - first
    positions = list(range(first, min(capacity, first + produced)))
    after_wrap = produced - until_wrap - 2**31
    return positions + list(range(min(capacity, max(0, after_wrap))))


def advance(write_index: int, produced: int) -> int:
    """The int32 write index after ``produced`` appends."""
    return (write_index + produced + 2**31) % 2**32 - 2**31


def ring_differences(
    write_index: int, produced: list[tuple[int, Rows]], ring: Rows
) -> Iterator[RingDifference]:
    """Where ``ring`` [capacity, 8] cannot be what the launches left.

    ``produced`` holds all rows of each launch with its step, in order, whether they fit or not.
    Ring rows that no launch stored to are not looked at.
    """
    index = write_index
    for step, rows in produced:
        positions = stored_positions(index, len(rows), len(ring))
        index = advance(index, len(rows))
        if not len(rows):
            continue
        found = Counter(_rows(ring[positions]))
        possible = Counter(_rows(rows))
        extra = found - possible
        missing = possible - found if len(positions) == len(rows) else Counter()
        if extra or missing:
            yield RingDifference(step, tuple(missing.elements()), tuple(extra.elements()))


def untouched_positions(
    write_index: int, produced: list[tuple[int, Rows]], capacity: int
) -> list[int]:
    """Ring rows that none of the launches stored to."""
    touched: set[int] = set()
    index = write_index
    for _, rows in produced:
        touched.update(stored_positions(index, len(rows), capacity))
        index = advance(index, len(rows))
    return [position for position in range(capacity) if position not in touched]


def _rows(values: Rows) -> Iterator[Row]:
    return (tuple(row) for row in values.tolist())
