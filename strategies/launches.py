"""The active part of a launch: what a plan's numbers come to by sections 4, 5 and 8."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from .case import VerifyStep, WriteStep
from .columns import at, head

_LONG = 1024

Request = tuple[int, int, int]
"""(seed slot, first entry, end of entries)"""


def active_count(num_valid: int, capacity: int) -> int:
    """A count clamped to what the plan holds."""
    return max(0, min(num_valid, capacity))


def active_requests(step: WriteStep) -> list[Request]:
    """The requests that have entries, with their ranges clamped to the arrays."""
    active = active_count(step.write_num_valid_reqs, step.write_seed_slot_indices.length)
    total = step.out_cache_loc.length
    if active > _LONG:
        ranges = _long_ranges(step, active)
    else:
        offsets = head(step.write_offsets, active + 1)
        seeds = head(step.write_seed_slot_indices, active)
        ranges = zip(seeds, offsets, offsets[1:], strict=False)
    return [
        (seed, first, end)
        for seed, start, stop in ranges
        if start < stop and (first := max(0, start)) < (end := min(stop, total))
    ]


def _long_ranges(step: WriteStep, active: int) -> Iterator[Request]:
    """The ranges of a plan of very many requests, but for those inside a run of equal offsets."""
    offsets = step.write_offsets
    start_of_tail = max(len(offsets.values), offsets.length - len(offsets.tail) - 1)
    spans = (range(min(active, len(offsets.values))), range(start_of_tail, active))
    for r in chain(*spans):
        yield at(step.write_seed_slot_indices, r), at(offsets, r), at(offsets, r + 1)


def entries(step: VerifyStep) -> zip[tuple[int, int, int, int]]:
    """The active entries: (slot, expected token, expected position, predecessor)."""
    active = active_count(step.verify_num_valid, step.verify_slot_indices.length)
    return zip(
        head(step.verify_slot_indices, active),
        head(step.verify_expected_tokens, active),
        head(step.verify_expected_positions, active),
        head(step.verify_prev_slot_indices, active),
        strict=True,
    )
