"""Drawing what is there before the first step: slots, ring, counters, sources, mode."""

from __future__ import annotations

from ..case import Case
from ..draw import Draw, spread
from ..values import INT32_MAX, INT64_MAX, INT64_MIN
from .sources import draw_content, draw_sources

_SCALES = spread(("tiny", 59), ("usual", 112), ("medium", 24), ("large", 5))
SCALES = {"tiny": (2, 7), "usual": (6, 24), "medium": (25, 72), "large": (180, 300)}
"""Slots at each scale, both bounds included."""

VAST = (520, 1100)
_VAST_PERCENT = 25
"""Slots of so many large cases: enough of them that slots a power of two apart are met."""

_STRIDES = spread((32, 10), (40, 3), (48, 3), (64, 3), (72, 1), (128, 2))
_MODES = spread((0, 3), (1, 6), (2, 11))
_RINGS = spread((0, 2), (1, 1), (2, 1), (3, 1), (4, 1), (8, 3), (16, 5), (32, 4), (48, 2))
_INDICES = spread(("zero", 9), ("inside", 3), ("end", 3), ("past", 1), ("far", 1))
_COUNTERS = (0, 1, 41, 2**31 - 1, 2**32 - 1, 2**53, INT64_MAX - 2**20, -1, INT64_MIN)
FARTHEST_INDEX = INT32_MAX - 2**20
"""A ring index from which no case reaches the end of int32."""


def draw_state(draw: Draw) -> Case:
    """A valid case without steps."""
    scale = draw.choice(_SCALES)
    num_slots = draw.integer(*SCALES[scale])
    ring_capacity = draw.choice(_RINGS)
    if scale == "large":
        if draw.chance(50):
            ring_capacity = 512
        if draw.chance(_VAST_PERCENT):
            num_slots = draw.integer(*VAST)
    preloaded = draw.chance(50)
    return Case(
        num_slots=num_slots,
        slot_stride_bytes=draw.choice(_STRIDES),
        canary_buf=draw_content(draw),
        ring_capacity=ring_capacity,
        violation_ring=draw_content(draw),
        violation_write_index=_draw_index(draw, ring_capacity),
        slot_run_counter=draw.choice(_COUNTERS) if preloaded else 0,
        kernel_run_counter=draw.choice(_COUNTERS) if preloaded else 0,
        real_kv_sources=draw_sources(draw, num_slots),
        real_kv_hash_mode=draw.choice(_MODES),
        schedule=draw.seed64() if draw.chance(75) else 0,
    )


def _draw_index(draw: Draw, ring_capacity: int) -> int:
    """Where the ring goes on: from the start, from inside, at its end, or past it."""
    kind = draw.choice(_INDICES)
    if kind == "zero":
        return 0
    if kind == "inside":
        return draw.integer(0, ring_capacity)
    if kind == "end":
        return max(0, ring_capacity - draw.integer(0, 2))
    return ring_capacity + draw.integer(1, 9) if kind == "past" else FARTHEST_INDEX
