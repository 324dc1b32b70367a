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
    """Rows of one launch that were not stored, and stored rows that it never produced.

    Where not all rows had room (``full``), a row that was not stored is no fault by itself.
    """

    step: int
    missing: tuple[Row, ...]
    extra: tuple[Row, ...]
    full: bool


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
    write_index: int, produced: list[tuple[int, Rows]], ring: Rows, final_index: int
) -> Iterator[RingDifference]:
    """Where ``ring`` [capacity, 8] cannot be what the launches left.

    ``produced`` holds all rows of each launch with its step, in order, whether they fit or not.
    ``final_index`` is the write index found beside the ring: of the last launch, only rows that it
    accounts for are taken from the ring. Ring rows that no launch stored to are not looked at.
    """
    index = write_index
    for number, (step, rows) in enumerate(produced):
        appended = len(rows)
        if number == len(produced) - 1:
            appended = min(appended, (final_index - index) % 2**32)
        positions = stored_positions(index, appended, len(ring))
        fits = len(stored_positions(index, len(rows), len(ring))) == len(rows)
        index = advance(index, len(rows))
        found = Counter(_rows(ring[positions]))
        possible = Counter(_rows(rows))
        extra, missing = found - possible, possible - found
        if extra or (missing and fits):
            yield RingDifference(
                step, tuple(missing.elements()), tuple(extra.elements()), full=not fits
            )


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
