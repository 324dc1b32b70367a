"""The passes that make a failing case simple, in the order in which they pay.

A pass is a callable over a `Problem`; it proposes and the problem disposes. Passes of a later
stage run when those of the earlier stages can do no more, since they cost more tries per success.
"""

from __future__ import annotations

from msgspec.structs import replace

from ..case import Case, CorruptStep, Step
from .bounds import into_bounds
from .contents import plain_contents, zero_words
from .cuts import canonical_column
from .edits import plain_edits, plain_faults
from .history import absorb_history
from .launching import plain_launching
from .layout import (
    compact_slots,
    lower_slots,
    shrink_ring,
    shrink_sources,
    shrink_stride,
)
from .numbers import lower_families, lower_numbers, plain_numbers, thin_fills
from .problem import Pass, Problem
from .sites import column_names
from .sorting import sort_entries, sort_sources
from .structure import (
    drop_edits,
    drop_entries,
    drop_faults,
    drop_inactive,
    drop_requests,
    drop_slots,
    drop_sources,
    drop_steps,
    switch_off,
)
from .trades import lower_pairs, trade
from .words import content_of, patched_words, put_content, region_names, with_words

__all__ = ["STAGES", "Pass", "Problem", "canonical"]

STAGES: tuple[tuple[Pass, ...], ...] = (
    (
        plain_launching,
        into_bounds,
        drop_steps,
        drop_faults,
        drop_slots,
        drop_inactive,
        drop_requests,
        drop_entries,
        drop_edits,
        drop_sources,
        switch_off,
        compact_slots,
        plain_contents,
        shrink_stride,
        shrink_sources,
        plain_numbers,
        shrink_ring,
    ),
    (thin_fills, lower_slots, zero_words, lower_families, lower_numbers, plain_edits, plain_faults),
    (sort_entries, sort_sources, lower_pairs, trade),
    (absorb_history,),
)
"""Passes by stage; all of a stage run before it is judged whether any of them did anything."""


def canonical(case: Case) -> Case:
    """The same case in the one way of writing it down that simplifying uses."""
    steps = tuple(_canonical_step(step) for step in case.steps)
    for region in region_names(case):
        content = content_of(case, region)
        if content.patches:
            case = put_content(case, region, with_words(content, patched_words(content)))
    return replace(case, steps=steps)


def _canonical_step(step: Step) -> Step:
    if isinstance(step, CorruptStep):
        return step
    columns = {name: canonical_column(getattr(step, name)) for name in column_names(step)}
    return replace(step, **columns)
