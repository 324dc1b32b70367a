"""Which slots the entries of a write launch name, how often, and which of them are skipped."""

from __future__ import annotations

from ..draw import Draw
from ..values import NEGATIVES
from .book import Book
from .state import VAST

_ALIAS_STEPS = (512, 512, 256, 128, 64, 32)
_ALIAS_GROUP = 4

_STRETCH_PERCENT = 0.8
_STRETCHED = (129, 200, 257, 258, 300, 385)
"""Entries of a request that names its few slots over and over: long at the price of a short one."""

_MANY = 10
_STRETCH_OF_MANY_PERCENT = 12
_STRETCHED_OF_MANY = (16, 17, 18, 33, 64, 129)
"""The same beside many short requests, and how often; one of them is long for its company."""

_STRETCH_OF_VAST_PERCENT = 50
"""How often where there are so many slots that some share their low bits."""


def draw_slot_order(draw: Draw, book: Book, count: int) -> list[int]:
    """``count`` different slots, most often ones that no earlier step stamped."""
    last = book.state.num_slots - 1
    if last >= VAST[0] - 1 and draw.chance(60):
        return _aliases(draw, last)[:count]
    if draw.chance(25) and count < last:
        start = draw.integer(1, last + 1 - count)
        return list(range(start, start + count))
    if book.stamps and draw.chance(75):
        order = draw.distinct(last + 1, 0, last)
        order.sort(key=book.stamps.__contains__)
        return order[:count]
    return draw.distinct(count, 0, last)


def _aliases(draw: Draw, last: int) -> list[int]:
    """All slots in an order in which those that share their low bits are close together."""
    step = draw.choice(_ALIAS_STEPS)
    bases = draw.distinct(step, 0, step - 1)
    return [
        base + shift
        for first in range(0, step, _ALIAS_GROUP)
        for shift in range(0, last + 1, step)
        for base in bases[first : first + _ALIAS_GROUP]
        if base + shift <= last
    ]


def disturb(draw: Draw, slots: list[int], skips: bool, duplicates: bool) -> list[int]:
    """One request's slots with some entries skipped or aimed at an earlier slot again."""
    slots = list(slots)
    if duplicates and len(slots) > 1:
        target = draw.integer(1, len(slots) - 1)
        slots[target] = slots[draw.integer(0, target - 1)]
    if skips:
        slots = [draw.choice(NEGATIVES) if draw.chance(30) else slot for slot in slots]
    return slots


def stretched_request(draw: Draw, sizes: list[int], num_slots: int) -> int | None:
    """The request that is to name its slots over and over, if any."""
    percent: float = _STRETCH_OF_MANY_PERCENT if len(sizes) >= _MANY else _STRETCH_PERCENT
    if num_slots >= VAST[0]:
        percent = _STRETCH_OF_VAST_PERCENT
    if not draw.chance(percent):
        return None
    full = [r for r, size in enumerate(sizes) if size]
    return draw.choice(full) if full else None


def stretch(draw: Draw, own: list[int], requests: int) -> list[int]:
    """Many entries for few slots, now and then with a long run of entries that are skipped."""
    size = draw.choice(_STRETCHED_OF_MANY if requests >= _MANY else _STRETCHED)
    slots = [own[i] for i in draw.integers(size, 0, len(own) - 1)]
    if size > 256 and draw.chance(60):
        start = draw.integer(100, 128)
        end = draw.integer(256, size)
        slots[start:end] = [draw.choice(NEGATIVES)] * (end - start)
    return slots
