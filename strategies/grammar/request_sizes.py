"""How many entries each request of a write launch has."""

from __future__ import annotations

from ..draw import Draw, spread

_SHAPES = spread(
    *(
        ("one", 52),
        ("few", 60),
        ("several", 28),
        ("many", 9),
        ("long", 3),
        ("none", 4),
        ("empty", 4),
    )
)
_LARGE_SHAPES = (*_SHAPES, *spread(("many", 80), ("long", 20)))
_LARGE = 120
"""Slots from which sizes beside the boundaries of blocks fit in, and are sought."""
_BOUNDARIES = (31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257)


def _near_boundary(draw: Draw, room: int) -> int:
    """A size beside a warp or block boundary that fits into ``room``, or ``room`` itself."""
    fitting = [size for size in _BOUNDARIES if size <= room]
    return draw.choice(fitting) if fitting else room


def draw_request_sizes(draw: Draw, room: int) -> list[int]:
    """Entries of each active request; their sum is at most ``room``."""
    shape = draw.choice(_SHAPES if room < _LARGE else _LARGE_SHAPES)
    if shape == "one":
        return [draw.integer(1, min(room, 12))]
    if shape == "long":
        return [_near_boundary(draw, min(room, 65 if draw.chance(60) else 257))]
    if shape == "none":
        return []
    if shape == "empty":
        return [0] * draw.integer(1, 3)
    if shape == "few":
        sizes = draw.integers(draw.integer(2, 4), 0, 5)
    elif shape == "several":
        sizes = draw.integers(draw.integer(4, 9), 0, 3)
    elif room >= 31 and draw.chance(60):
        sizes = [1] * _near_boundary(draw, room)
    else:
        count = draw.choice(_BOUNDARIES) if draw.chance(40) else draw.integer(10, 30)
        sizes = [int(size == 0) for size in draw.integers(count, 0, max(1, 2 * count // room))]
    for r, size in enumerate(sizes):
        sizes[r] = size = min(size, room)
        room -= size
    return sizes
