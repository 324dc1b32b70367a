"""To which domain a case belongs: what a target must support for a difference to count."""

from __future__ import annotations

from enum import Enum

from .case import Case, CorruptStep, SwapSlots, VerifyStep, WriteStep
from .columns import ascending, head, occurring
from .launches import Request, active_requests
from .regions import slot_fields
from .values import INT32_MAX, INT64_MAX, as_int64
from .wellformed import MalformedCase, check_case

__all__ = ["Domain", "MalformedCase", "check_case", "classify"]


class Domain(Enum):
    """The parts of the contract that a case needs."""

    VALID = "valid"
    """Sections 2 to 6: every implementation agrees, upstream's too."""
    HARDENED = "hardened"
    """Section 8: what upstream leaves open."""
    REFUSED = "refused"
    """Section 7: a launch is illegal."""
    UNDEFINED = "undefined"
    """Section 9: nothing can be said."""


def classify(case: Case) -> Domain:
    """The domain of a well-formed case; UNDEFINED first, then REFUSED, then HARDENED."""
    launches = [step for step in case.steps if not isinstance(step, CorruptStep)]
    running = [step for step in launches if not step.faults]
    requests = {id(step): active_requests(step) for step in running if isinstance(step, WriteStep)}
    for step in running:
        if isinstance(step, WriteStep) and _is_racy(case, step, requests[id(step)]):
            return Domain.UNDEFINED
    if len(running) < len(launches):
        return Domain.REFUSED
    for step in running:
        out_of_bounds = (
            _write_out_of_bounds(case, step)
            if isinstance(step, WriteStep)
            else _verify_out_of_bounds(case, step)
        )
        if out_of_bounds:
            return Domain.HARDENED
    if _counts_wrap(case, running, requests) or _positions_wrap(case, requests):
        return Domain.HARDENED
    return Domain.VALID


def _is_racy(case: Case, step: WriteStep, requests: list[Request]) -> bool:
    """Whether two requests write one slot, or one writes a slot that another starts from."""
    if len(requests) < 2:
        return False
    slots = head(step.out_cache_loc, max(end for _, _, end in requests))
    writer: dict[int, int] = {}
    for r, (_, first, end) in enumerate(requests):
        for slot in slots[first:end]:
            if 0 <= slot < case.num_slots and writer.setdefault(slot, r) != r:
                return True
    return any(writer.get(seed, r) != r for r, (seed, _, _) in enumerate(requests))


def _write_out_of_bounds(case: Case, step: WriteStep) -> bool:
    capacity, total = step.write_seed_slot_indices.length, step.out_cache_loc.length
    active = step.write_num_valid_reqs
    if not 0 <= active <= capacity or capacity == 0:
        return True
    offsets = occurring(step.write_offsets, active + 1)
    if offsets[0] < 0 or offsets[-1] > total or not ascending(offsets):
        return True
    used = head(step.out_cache_loc, offsets[-1])
    seeds = occurring(step.write_seed_slot_indices, active)
    return max(used, default=0) >= case.num_slots or max(seeds, default=0) >= case.num_slots


def _verify_out_of_bounds(case: Case, step: VerifyStep) -> bool:
    capacity, active = step.verify_slot_indices.length, step.verify_num_valid
    if not 0 <= active <= capacity or capacity == 0:
        return True
    slots = occurring(step.verify_slot_indices, active)
    previous = occurring(step.verify_prev_slot_indices, active)
    return bool(slots) and (
        min(slots) < 0 or max(slots) >= case.num_slots or max(previous) >= case.num_slots
    )


def _counts_wrap(
    case: Case, running: list[WriteStep | VerifyStep], requests: dict[int, list[Request]]
) -> bool:
    stamps = sum(end - first for found in requests.values() for _, first, end in found)
    checks = sum(step.verify_num_valid for step in running if isinstance(step, VerifyStep))
    index = case.violation_write_index
    return (
        not 0 <= index <= INT32_MAX - 2 * stamps - checks
        or case.slot_run_counter > INT64_MAX - stamps - checks
        or case.kernel_run_counter > INT64_MAX - len(running)
    )


class _Positions:
    """The position that each slot stores, step by step."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._stored: dict[int, int] = {}

    def __getitem__(self, slot: int) -> int:
        if slot not in self._stored:
            self._stored[slot] = slot_fields(self._case, slot)[1]
        return self._stored[slot]

    def corrupt(self, step: CorruptStep) -> None:
        """Apply the edits that touch a position."""
        for edit in step.edits:
            if isinstance(edit, SwapSlots):
                first, second = self[edit.first], self[edit.second]
                self._stored[edit.first], self._stored[edit.second] = second, first
            elif edit.region == "canary_buf":
                slot, byte = divmod(edit.offset, self._case.slot_stride_bytes)
                if 8 <= byte < 16:
                    self._stored[slot] = as_int64(self[slot] ^ edit.mask << 8 * (byte - 8))

    def write(self, step: WriteStep, requests: list[Request]) -> bool:
        """Stamp the launch's positions; whether its position assert goes past INT64_MAX."""
        for seed, first, end in requests:
            asserting = step.enable_chain_position_assert != 0 and seed >= 0
            previous = self[seed] if asserting else 0
            slots = head(step.out_cache_loc, end)[first:]
            positions = head(step.positions, end)[first:]
            for slot, position in zip(slots, positions, strict=True):
                if slot >= 0:
                    if asserting and previous == INT64_MAX:
                        return True
                    self._stored[slot] = previous = position
        return False


def _positions_wrap(case: Case, requests: dict[int, list[Request]]) -> bool:
    positions = _Positions(case)
    for step in case.steps:
        if isinstance(step, CorruptStep):
            positions.corrupt(step)
        elif isinstance(step, WriteStep) and positions.write(step, requests[id(step)]):
            return True
    return False
