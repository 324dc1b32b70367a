"""Features of write launches."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence

from ..case import WriteStep
from ..columns import head
from ..launches import active_count, active_requests

_EDGE = 2**31 - 2
_ALIAS = 512
"""Slots so far apart, or a multiple of it, share their low bits."""
_REQUESTS = tuple(
    f"write_requests:{grade}" for grade in ("0", "1", "2-4", "5-9", "10-64", "65+", "wide")
)


def count_class(count: int) -> str:
    """The class of a count in feature names; "few" where it is near no boundary."""
    if count < 2:
        return "1" if count else "0"
    for boundary in (32, 64, 128, 256, 512):
        if boundary - 1 <= count <= boundary + 1:
            return f"{boundary - 1}-{boundary + 1}"
    return "few" if count < 65535 else "wide"


def number_classes(prefix: str, numbers: Sequence[int], found: set[str]) -> None:
    """Add the classes of the extremes of ``numbers``: small, about int32's end, wide, int64's."""
    for number in (min(numbers), max(numbers)):
        size = number if number >= 0 else ~number
        if size < _EDGE:
            found.add(prefix + "small")
        elif size <= 2**31 + 1:
            found.add(prefix + "int32_edge")
        else:
            found.add(prefix + ("int64_edge" if size >= 2**63 - 2 else "wide"))


def _requests(step: WriteStep, active: int, nonempty: int, found: set[str]) -> None:
    found.add(_REQUESTS[bisect((1, 2, 5, 10, 65, 65535), active)])
    if nonempty < active:
        found.add("write_plan:empty_request")
    full = active == step.write_seed_slot_indices.length
    found.add("write_plan:full" if full else "write_plan:request_tail")


def _seed(seed: int, own: Sequence[int], stamped: set[int], found: set[str]) -> None:
    if seed < 0:
        found.add("write_seed:-1" if seed == -1 else "write_seed:other_negative")
        return
    if seed == 0:
        found.add("write_seed:zero")
    if seed in own:
        found.add("write_seed:own_slot")
    found.add("write_seed:stamped_before" if seed in stamped else "write_seed:stale_slot")


def _slots(slots: Sequence[int], stamped: set[int], found: set[str]) -> None:
    """Features of the entries' slots, which become stamped."""
    lowest = min(slots)
    if lowest < 0:
        found.add("write_slot:skipped")
        if lowest < -1:
            found.add("write_slot:skipped_other")
    distinct = set(slots)
    if 0 in distinct:
        found.add("write_slot:zero")
    skipped = 0
    if lowest < 0:
        skipped = sum(slot < 0 for slot in slots)
        distinct = {slot for slot in distinct if slot >= 0}
    if len(distinct) + skipped < len(slots):
        found.add("write_slot:duplicate")
    if max(distinct, default=0) >= _ALIAS:
        low = {slot % _ALIAS for slot in distinct}
        if len(low) < len(distinct):
            found.add("write_slot:alias")
    stamped |= distinct


def _input_assert(step: WriteStep, first: int, end: int, found: set[str]) -> None:
    tokens, positions = step.expected_input_tokens, step.expected_input_positions
    if tokens is None or positions is None:
        found.add("input_assert:off")
        return
    wanted = head(tokens, end)[first:]
    token = wanted != head(step.input_ids, end)[first:]
    position = head(positions, end) != head(step.positions, end)
    if not token and not position:
        found.add("input_assert:clean")
        return
    if token and position:
        found.add("input_assert:both")
    found.add("input_assert:token" if token else "input_assert:position")
    if token and -1 in wanted:
        found.add("input_assert:minus_one")


def _chain_assert(step: WriteStep, found: set[str]) -> None:
    enable = step.enable_chain_position_assert
    if enable < 2:
        found.add(("chain_assert:off", "chain_assert:1", "chain_assert:negative")[max(enable, -1)])
    else:
        found.add("chain_assert:other")


def write_features(step: WriteStep, stamped: set[int], found: set[str]) -> None:
    """Add the features of one write launch; its slots are added to ``stamped``."""
    requests = active_requests(step)
    active = active_count(step.write_num_valid_reqs, step.write_seed_slot_indices.length)
    _requests(step, active, len(requests), found)
    _chain_assert(step, found)
    if not requests:
        found.add("write_entries:0")
        return
    first, end = requests[0][1], requests[-1][2]
    slots = head(step.out_cache_loc, end)
    longest = 0
    for seed, start, stop in requests:
        _seed(seed, slots[start:stop], stamped, found)
        longest = max(longest, stop - start)
    found.add("write_entries:" + count_class(end - first))
    if longest > 16:
        found.add("write_longest:17+")
        if 30 < longest < 34 or 62 < longest < 66 or 126 < longest < 130:
            found.add("write_longest:" + count_class(longest))
    if first:
        found.add("write_plan:leading_entries")
    if end < step.out_cache_loc.length:
        found.add("write_plan:token_tail")
    if first < end:
        _slots(slots[first:], stamped, found)
        number_classes("write_token:", head(step.input_ids, end)[first:], found)
        number_classes("write_position:", head(step.positions, end)[first:], found)
        _input_assert(step, first, end, found)
