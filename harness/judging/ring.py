"""When two violation rings are equal: the rule of the contract, section 6.

The order of the rows of one launch is unspecified, and so is which of them are stored when they do
not all fit. Rows are compared whole, never column by column.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..execution.outcome import Rows

Row = tuple[int, ...]


class RingDifference(NamedTuple):
    """Rows of one launch that should stand in the ring and do not, and the other way round.

    ``unstored`` positions were counted by the write index and still hold what was there before.
    Where not all rows had room (``full``), a row that is missing is no fault by itself.
    """

    step: int
    missing: tuple[Row, ...]
    extra: tuple[Row, ...]
    unstored: tuple[int, ...]
    full: bool


class Appended(NamedTuple):
    """What launches appended to a ring that began as ``initial``, [capacity, 8].

    ``produced`` holds all rows of each launch with its step, in order, whether they fit or not.
    ``final_index`` is the write index found afterwards: how many rows the last launch claims.
    """

    initial: Rows
    write_index: int
    produced: list[tuple[int, Rows]]
    final_index: int

    def launches(self) -> Iterator[tuple[int, Rows, int, int]]:
        """Of each launch its step, its rows, the index before it, and how many it appended."""
        index = self.write_index
        for number, (step, rows) in enumerate(self.produced):
            claimed = len(rows)
            if number == len(self.produced) - 1:
                claim = (self.final_index - index) % 2**32
                claimed = claim if claim <= claimed + MOST_UNEXPECTED else claimed
            yield step, rows, index, claimed
            index = advance(index, len(rows))


MOST_UNEXPECTED = 4096
"""A write index that claims this many rows too many is itself the fault."""


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


def ring_differences(appended: Appended, ring: Rows) -> Iterator[RingDifference]:
    """Where ``ring`` [capacity, 8] cannot be what the launches left.

    Ring rows that no launch stored to are not looked at.
    """
    capacity = len(ring)
    for step, rows, index, claimed in appended.launches():
        positions = stored_positions(index, claimed, capacity)
        if claimed == len(rows) and _stand_in_order(rows, index, ring[positions]):
            continue
        possible = Counter(_rows(rows))
        unstored = tuple(
            position
            for position in positions
            if np.array_equal(ring[position], appended.initial[position])
            and tuple(ring[position].tolist()) not in possible
        )
        found = Counter(_rows(ring[[p for p in positions if p not in unstored]]))
        extra, missing = found - possible, possible - found
        full = len(stored_positions(index, len(rows), capacity)) < len(rows)
        if extra or unstored or (missing and not full):
            lost, added = tuple(missing.elements()), tuple(extra.elements())
            yield RingDifference(step, lost, added, unstored, full)


def _stand_in_order(rows: Rows, index: int, stored: Rows) -> bool:
    """Whether ``stored`` are the rows that fit, in the order of appending: equal at a glance."""
    first = max(0, -index)
    return np.array_equal(stored, rows[first : first + len(stored)])


def untouched_positions(appended: Appended) -> list[int]:
    """Ring rows that none of the launches stored to."""
    capacity = len(appended.initial)
    touched: set[int] = set()
    for _, _, index, claimed in appended.launches():
        touched.update(stored_positions(index, claimed, capacity))
    return [position for position in range(capacity) if position not in touched]


def _rows(values: Rows) -> Iterator[Row]:
    return (tuple(row) for row in values.tolist())
