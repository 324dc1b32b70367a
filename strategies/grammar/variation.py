"""Variations of any case: all its steps twice, tensors off their alignment, other launching."""

from __future__ import annotations

from msgspec.structs import replace

from ..case import MOST_SHIFT, Case
from ..classify import classify
from ..draw import Draw, spread

_TWICE_PERCENT = 2.0
_MOST_STEPS_TWICE = 3
"""Doubled, these are as many as other cases have: a batch takes as long as its longest case."""
_SHIFTED_PERCENT = 40.0
_LAUNCHINGS = spread(("eager", 44), ("side_stream", 2), ("graph", 4))
_SHIFT_UNIT = 4


def vary(draw: Draw, case: Case) -> Case:
    """The case, drawn already, with the ways of running it drawn; its domain stays."""
    shift = draw.integer(1, MOST_SHIFT // _SHIFT_UNIT) if draw.chance(_SHIFTED_PERCENT) else 0
    varied = replace(case, launching=draw.choice(_LAUNCHINGS), shift=_SHIFT_UNIT * shift)
    return _twice(varied) if draw.chance(_TWICE_PERCENT) else varied


def _twice(case: Case) -> Case:
    """Every step twice, in order, on one state; the case itself where that is another domain."""
    if len(case.steps) > _MOST_STEPS_TWICE:
        return case
    again = replace(case, steps=case.steps * 2)
    return again if classify(again) is classify(case) else case
