"""Features of inputs outside the valid domain: the contract's section 8."""

from __future__ import annotations

from itertools import pairwise

from ..case import Case, VerifyStep, WriteStep
from ..columns import ascending, head, occurring
from ..values import INT32_MAX, INT64_MAX

_NEAR_THE_END = 2**19
"""Distance from a type's maximum that valid cases keep."""


def state_features(case: Case, found: set[str]) -> None:
    """Add what the initial ring index and counters have of section 8."""
    index = case.violation_write_index
    if index < 0:
        found.add("hardened_state:index_negative")
    elif index > INT32_MAX - _NEAR_THE_END:
        found.add("hardened_state:index_wraps")
    if case.slot_run_counter > INT64_MAX - _NEAR_THE_END:
        found.add("hardened_state:slot_counter")
    if case.kernel_run_counter > INT64_MAX - _NEAR_THE_END:
        found.add("hardened_state:kernel_counter")


def _count(family: str, count: int, capacity: int, found: set[str]) -> None:
    if count < 0:
        found.add(family + ":negative")
    elif count > capacity:
        found.add(family + ":beyond")
    if capacity == 0:
        found.add(family + ":no_capacity")


def write_features(case: Case, step: WriteStep, found: set[str]) -> None:
    """Add what a write plan has of section 8."""
    capacity, total = step.write_seed_slot_indices.length, step.out_cache_loc.length
    active = step.write_num_valid_reqs
    if not 0 <= active <= capacity or capacity == 0:
        _count("hardened_requests", active, capacity, found)
        return
    offsets = occurring(step.write_offsets, active + 1)
    if min(offsets) < 0:
        found.add("hardened_offsets:negative")
    if max(offsets) > total:
        found.add("hardened_offsets:beyond")
    entries = max(0, min(offsets[-1], total))
    if not ascending(offsets):
        found.add("hardened_offsets:descending")
        ranges = ((max(start, 0), min(stop, total)) for start, stop in pairwise(offsets))
        entries = max((stop for start, stop in ranges if start < stop), default=0)
    if entries:
        if max(head(step.out_cache_loc, entries)) >= case.num_slots:
            found.add("hardened_write:slot_beyond")
        if max(head(step.positions, entries)) == INT64_MAX and step.enable_chain_position_assert:
            found.add("hardened_write:last_position")
    if active and max(occurring(step.write_seed_slot_indices, active)) >= case.num_slots:
        found.add("hardened_write:seed_beyond")


def verify_features(case: Case, step: VerifyStep, found: set[str]) -> None:
    """Add what a verify plan has of section 8."""
    capacity, active = step.verify_slot_indices.length, step.verify_num_valid
    if not 0 < active <= capacity:
        _count("hardened_entries", active, capacity, found)
        return
    slots = occurring(step.verify_slot_indices, active)
    if min(slots) < 0:
        found.add("hardened_verify:slot_negative")
    if max(slots) >= case.num_slots:
        found.add("hardened_verify:slot_beyond")
    if max(occurring(step.verify_prev_slot_indices, active)) >= case.num_slots:
        found.add("hardened_verify:predecessor_beyond")
