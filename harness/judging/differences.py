"""Every difference between two arenas after one step, explained."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kv_canary_fuzz.reference import consts
from kv_canary_fuzz.strategies.case import Case, WriteStep

from ..execution.arena import Bytes
from ..execution.layout import Layout, between_rows
from ..execution.outcome import Rows
from .comparison import ring_rows
from .mismatch import MOST_DIFFERENCES, Mismatch, Rank, hash_text
from .ring import Appended
from .row_differences import blamed_on_reference, row_differences
from .stamps import Stamp, stamps

FIELDS = ("token", "position", "prev_hash", "real_kv_hash")
_COUNTERS = {
    "violation_write_index": (Rank.INDEX, np.int32),
    "slot_run_counter": (Rank.COUNTER, np.int64),
    "kernel_run_counter": (Rank.COUNTER, np.int64),
}


def differences(
    case: Case,
    layout: Layout,
    produced: list[tuple[int, Rows]],
    initial: Bytes,
    expected: Bytes,
    found: Bytes,
) -> Iterator[Mismatch]:
    """Differences between the two buffers of ``case`` after the last step of ``produced``.

    ``produced`` holds the reference's rows of every step so far, ``initial`` the bytes before the
    first. Guards, inputs and everything else that a launch must leave alone are looked at like the
    rest.
    """
    step = produced[-1][0]
    offsets = np.flatnonzero(expected != found)
    if not offsets.size:
        return
    by_region: dict[str, list[int]] = {}
    guards: dict[str, int] = {}
    for offset in offsets.tolist():
        place = layout.locate(offset)
        if place is None:
            guards.setdefault(_guard_name(layout, offset), offset)
        elif between_rows(case, *place):
            guards.setdefault(f"bytes between the rows of {place[0]}", offset)
        else:
            by_region.setdefault(place[0], []).append(place[1])
    for region, inside in by_region.items():
        start, size = layout.regions[region]
        sides = expected[start : start + size], found[start : start + size]
        if region == "canary_buf":
            yield from _stamp_differences(case, step, inside, *sides)
        elif region == "violation_ring":
            before = ring_rows(initial, start, size)
            left, right = (
                row_differences(
                    Appended(
                        before, case.violation_write_index, produced, _write_index(layout, side)
                    ),
                    ring_rows(side, start, size),
                )
                for side in (expected, found)
            )
            yield from map(blamed_on_reference, left)
            yield from right
        elif region in _COUNTERS:
            yield _counter_difference(region, *sides)
        else:
            yield _input_difference(region, inside[0], *sides)
    for number, (name, offset) in enumerate(guards.items()):
        yield Mismatch(
            rank=Rank.GUARD,
            order=(number,),
            kind=name,
            place=f"byte {offset} of the arena, in the {name}",
            expected=f"0x{int(expected[offset]):02x}",
            found=f"0x{int(found[offset]):02x}",
            offset=offset,
        )


def _guard_name(layout: Layout, offset: int) -> str:
    before = [name for name, region in layout.regions.items() if region.end <= offset]
    return f"guard after {before[-1].split('.', 1)[-1]}" if before else "guard before canary_buf"


def _stamp_differences(
    case: Case, step: int, inside: list[int], expected: Bytes, found: Bytes
) -> Iterator[Mismatch]:
    stride = case.slot_stride_bytes
    current = case.steps[step]
    owners = stamps(current, case.num_slots) if isinstance(current, WriteStep) else {}
    cells = dict.fromkeys((offset // stride, min(offset % stride // 8, 4)) for offset in inside)
    for slot, field in list(cells)[:MOST_DIFFERENCES]:
        at = slot * stride + field * 8
        size = 8 if field < 4 else stride - consts.CANARY_SLOT_BYTES
        name = FIELDS[field] if field < 4 else "padding"
        owner = owners.get(slot)
        yield Mismatch(
            rank=Rank.STAMP,
            order=_chain_order(owner, slot, field),
            kind=f"canary_buf.{name}",
            place=f"slot {slot}, {name}{_owner_text(owner)}",
            expected=_field_text(expected[at : at + size], field),
            found=_field_text(found[at : at + size], field),
            region="canary_buf",
            offset=at,
        )


def _chain_order(owner: Stamp | None, slot: int, field: int) -> tuple[int, ...]:
    if owner is None:
        return (1, slot, 0, field)
    return (0, owner.request, owner.entry, field)


def _owner_text(owner: Stamp | None) -> str:
    if owner is None:
        return " (stamped by no entry of this step)"
    return (
        f" (request {owner.request}, entry {owner.entry}, chain position {owner.position_in_chain})"
    )


def _field_text(data: Bytes, field: int) -> str:
    if field >= consts.CANARY_FIELDS_PER_SLOT:
        return bytes(data).hex()
    value = int(data.view(np.int64)[0])
    return str(value) if field < consts.CANARY_FIELD_PREV_HASH else hash_text(value)


def _write_index(layout: Layout, data: Bytes) -> int:
    offset, size = layout.regions["violation_write_index"]
    return int(data[offset : offset + size].view(np.int32)[0])


def _counter_difference(region: str, expected: Bytes, found: Bytes) -> Mismatch:
    rank, dtype = _COUNTERS[region]
    return Mismatch(
        rank=rank,
        order=(list(_COUNTERS).index(region),),
        kind=region,
        place=region,
        expected=str(int(expected.view(dtype)[0])),
        found=str(int(found.view(dtype)[0])),
        region=region,
    )


def _input_difference(region: str, offset: int, expected: Bytes, found: Bytes) -> Mismatch:
    name = region.split(".", 1)[-1] if region.startswith("steps[") else region
    return Mismatch(
        rank=Rank.INPUT,
        order=(offset,),
        kind=f"input {name}",
        place=f"{region}, byte {offset}, which a launch must not change",
        expected=f"0x{int(expected[offset]):02x}",
        found=f"0x{int(found[offset]):02x}",
        region=region,
        offset=offset,
    )
