"""Numbers that tests are made of: tokens, positions, poison, and values that differ slightly."""

from __future__ import annotations

from .draw import Draw, spread

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

EDGES = (
    *(0, 1, -1, 2, 255, 65535, 65536),
    *(INT32_MAX - 1, INT32_MAX, INT32_MAX + 1, INT32_MIN, INT32_MIN - 1),
    *(2**32 - 1, 2**32, 2**32 + 1, -(2**32)),
    *(INT64_MAX, INT64_MAX - 1, INT64_MIN, INT64_MIN + 1),
)
"""Values at the ends of 32-bit and 64-bit integers."""

ENABLES = spread(
    (0, 10), (1, 6), (2, 2), (-1, 2), (INT32_MAX, 1), (INT32_MIN, 1), (256, 1), (65536, 1)
)
"""int32 switches: contract, sections 4 and 5, compare them with 0 only."""

NEGATIVES = spread((-1, 12), (-2, 2), (INT32_MIN, 1), (INT64_MIN, 1), (-(2**32) + 1, 1))
"""Slots and seeds that mean none."""

_TOKEN_STYLES = spread(("small", 8), ("few", 2), ("wide", 4), ("edges", 4))
_POSITION_BASES = spread(("zero", 6), ("small", 8), ("edge", 3), ("top", 1), ("wide", 1))
_BASE_EDGES = (INT32_MAX - 2, 2**32 - 2, -3, 2**32, INT32_MIN, INT64_MIN)
_JUMPS = spread((1, 3), (-1, 3), (2**32, 3), (-(2**32), 1), (7, 2), (2**31, 1), (-2, 1), (2**40, 1))


def clamp64(value: int) -> int:
    """The nearest int64."""
    return max(INT64_MIN, min(INT64_MAX, value))


def as_int64(value: int) -> int:
    """The int64 with the same low 64 bits."""
    value &= 2**64 - 1
    return value - 2**64 if value >> 63 else value


def tokens(draw: Draw, count: int) -> list[int]:
    """Token ids in one of several styles, anything that an int64 holds."""
    style = draw.choice(_TOKEN_STYLES)
    if style == "small":
        return draw.integers(count, 0, 31999)
    if style == "few":
        return draw.integers(count, 0, 3)
    if style == "wide":
        return draw.integers(count, INT64_MIN, INT64_MAX)
    return [EDGES[i] for i in draw.integers(count, 0, len(EDGES) - 1)]


def position_base(draw: Draw, count: int) -> int:
    """Where ``count`` ascending positions may start: the last is at most INT64_MAX - 1."""
    style = draw.choice(_POSITION_BASES)
    if style == "zero":
        return 0
    if style == "small":
        return draw.integer(0, 9000)
    if style == "edge":
        return draw.choice(_BASE_EDGES)
    if style == "top":
        return INT64_MAX - 1 - count
    return draw.integer(INT64_MIN, INT64_MAX - 1 - count)


def jump(draw: Draw) -> int:
    """How far a position departs from its predecessor's successor: never 0."""
    return draw.choice(_JUMPS)


def different(draw: Draw, value: int) -> int:
    """An int64 that is not ``value``: one bit off more often than not."""
    kind = draw.integer(0, 9)
    if kind == 0:
        other = -1
    elif kind == 1:
        other = draw.choice(EDGES)
    elif kind == 2:
        other = value + 1 if value < INT64_MAX else 0
    else:
        return as_int64(value ^ 1 << draw.integer(0, 63))
    return other if other != value else value ^ 1


def poison(draw: Draw, plausible: int) -> int:
    """What an inactive tail holds: ``plausible`` is a value that would do harm if it were read."""
    kind = draw.integer(0, 9)
    if kind < 5:
        return plausible
    if kind < 7:
        return -1
    return draw.choice(EDGES)
