"""Drawing how far apart the rows of sources lie, for contracts that allow it."""

from __future__ import annotations

from msgspec.structs import replace

from ..case import Case, Source
from ..draw import Draw, spread

_CASE_PERCENT = 25
_SOURCE_PERCENT = 70
_GAPS = spread(("narrow", 3), ("one row", 4), ("rows", 3))
_NARROW = (16, 32, 48, 80)
_MOST_BYTES = 2**14
"""What the gaps of one source may take."""


def spread_rows(draw: Draw, case: Case) -> Case:
    """The case, at times with rows of its sources apart: nothing else in it changes."""
    if not case.real_kv_sources or not draw.chance(_CASE_PERCENT):
        return case
    sources = [
        replace(source, row_gap=_draw_gap(draw, source))
        if source.rows > 1 and draw.chance(_SOURCE_PERCENT)
        else source
        for source in case.real_kv_sources
    ]
    return replace(case, real_kv_sources=tuple(sources))


def _draw_gap(draw: Draw, source: Source) -> int:
    """The rows of other layers, or a few bytes of something else."""
    kind = draw.choice(_GAPS)
    gap = draw.choice(_NARROW)
    if kind != "narrow":
        gap = source.row_bytes * (1 if kind == "one row" else draw.integer(2, 4))
    return gap if gap * source.rows <= _MOST_BYTES else 16
