"""Which entry of which request a write step stamps into which slot."""

from __future__ import annotations

from typing import NamedTuple

from kv_canary_fuzz.strategies.case import WriteStep
from kv_canary_fuzz.strategies.columns import at


class Stamp(NamedTuple):
    """The last entry for one slot: ``position_in_chain`` counts the request's stamps from 0."""

    request: int
    entry: int
    position_in_chain: int


def entries_of(step: WriteStep, request: int) -> range:
    """The flat indices of a request's entries, those that are skipped included."""
    tokens = step.input_ids.length
    start = max(0, min(at(step.write_offsets, request), tokens))
    return range(start, max(0, min(at(step.write_offsets, request + 1), tokens)))


def stamps(step: WriteStep, num_slots: int) -> dict[int, Stamp]:
    """The stamp that stays in each slot the step writes, by slot."""
    found: dict[int, Stamp] = {}
    capacity = step.write_seed_slot_indices.length
    for request in range(max(0, min(step.write_num_valid_reqs, capacity))):
        chain = 0
        for entry in entries_of(step, request):
            slot = at(step.out_cache_loc, entry)
            if 0 <= slot < num_slots:
                found[slot] = Stamp(request, entry, chain)
                chain += 1
    return found
