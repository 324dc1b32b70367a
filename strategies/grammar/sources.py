"""Drawing real-KV sources: how slots lie in pages, pages in rows, and what the bytes are."""

from __future__ import annotations

from ..case import Source
from ..content import Content
from ..draw import Draw, spread

REAL_GEOMETRIES = (
    (2048, 1),  # 8 heads of 128 bf16, one row per token
    (1152, 1),  # 576 bf16, latent attention
    (656, 1),  # fp8 latents with scales
    (656, 64),
)
"""(num_bytes_per_token, page_size) of pools in use."""

_LONG_GEOMETRIES = ((144, 1), (272, 1), (144, 3), (400, 2))
"""The same for tokens of several vectors that are cheap enough for more slots than a warp has
lanes."""

PAGE_SIZES = spread(
    *((1, 6), (2, 3), (3, 2), (4, 4), (5, 2), (7, 1), (8, 2), (16, 3), (32, 1), (64, 1))
)
_TOKEN_BYTES = spread((16, 5), (32, 8), (48, 4), (64, 4), (80, 1), (128, 1))
_PADDINGS = spread((0, 6), (16, 3), (32, 1), (48, 1), (112, 1))
_COUNTS = spread((0, 4), (1, 7), (2, 5), (3, 2), (4, 2))
_FILLS = (0, 255, 1, 165)
_BUDGET = 6144
"""Bytes that one source of ordinary geometry may take before it is given a plainer one."""


def draw_content(draw: Draw, seeded_percent: int = 88) -> Content:
    """Random bytes mostly; else one byte repeated."""
    if draw.chance(seeded_percent):
        return Content(seed=draw.seed64())
    return Content(fill=draw.choice(_FILLS))


def _rows(num_slots: int, page_size: int) -> int:
    return -(-num_slots // page_size)


def draw_source(draw: Draw, num_slots: int) -> Source:
    """A legal source that covers ``num_slots`` slots."""
    if num_slots <= 16 and draw.chance(3):
        token_bytes, page_size = draw.choice(REAL_GEOMETRIES)
        page_size = page_size if draw.chance(8) else 1
    elif 16 < num_slots <= 72 and draw.chance(3):
        token_bytes, page_size = draw.choice(_LONG_GEOMETRIES)
    else:
        token_bytes = draw.choice(_TOKEN_BYTES)
        page_size = draw.choice(PAGE_SIZES)
        if _rows(num_slots, page_size) * page_size * token_bytes > _BUDGET and draw.chance(97):
            page_size, token_bytes = min(page_size, 4), min(token_bytes, 32)
    read_bytes = token_bytes
    if token_bytes > 16 and draw.chance(45):
        read_bytes = 16 * draw.integer(1, token_bytes // 16 - 1)
    return Source(
        rows=_rows(num_slots, page_size) + (draw.integer(1, 2) if draw.chance(12) else 0),
        row_bytes=page_size * token_bytes + draw.choice(_PADDINGS),
        page_size=page_size,
        num_bytes_per_token=token_bytes,
        read_bytes=read_bytes,
        content=draw_content(draw),
    )


def draw_sources(draw: Draw, num_slots: int) -> tuple[Source, ...]:
    """None to four sources, each of its own geometry."""
    count = draw.choice(_COUNTS)
    return tuple([draw_source(draw, num_slots) for _ in range(count)])
