"""What the grammar remembers of the slots that its write steps stamped."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..case import Case
from ..values import INT64_MAX

Stamp = tuple[int, int, int]
"""(token, position, predecessor slot or -1) as a clean verify plan would expect them."""


@dataclass
class Book:
    """Working memory of one drawing; never part of a case.

    ``unsafe`` holds the slots whose stored position may be INT64_MAX: a chain that goes on from
    one of them under the position assert would wrap, which is not valid.
    """

    state: Case
    stamps: dict[int, Stamp] = field(default_factory=dict)
    unsafe: set[int] = field(default_factory=set)

    def stamp(self, slot: int, token: int, position: int, prev_slot: int) -> None:
        """Note what a write launch leaves in a slot, as the newest stamp."""
        self.stamps.pop(slot, None)
        self.stamps[slot] = (token, position, prev_slot)
        if position == INT64_MAX:
            self.unsafe.add(slot)
        else:
            self.unsafe.discard(slot)
