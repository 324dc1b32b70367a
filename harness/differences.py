"""Every difference between two arenas after one step, explained."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kv_canary_fuzz.reference import consts
from kv_canary_fuzz.strategies.case import Case, WriteStep

from .arena import Bytes
from .comparison import ring_rows
from .layout import Layout
from .mismatch import Mismatch, Rank, bits_text
from .outcome import Rows
from .ring import Appended, RingDifference, Row, ring_differences, untouched_positions
from .stamps import Stamp, stamps

FIELDS = ("token", "position", "prev_hash", "real_kv_hash")
ROW_FIELDS = (
    "kernel_kind",
    "slot_idx",
    "position",
    "stored_token",
    "expected_token",
    "stored_chain_hash",
    "expected_aux",
    "fail_reason_bits",
)
_COUNTERS = {
    "violation_write_index": (Rank.INDEX, np.int32),
    "slot_run_counter": (Rank.COUNTER, np.int64),
    "kernel_run_counter": (Rank.COUNTER, np.int64),
}
MOST_DIFFERENCES = 256
"""Differences of one region that are explained; a reader needs the first ones."""


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
        else:
            by_region.setdefault(place[0], []).append(place[1])
    for region, inside in by_region.items():
        start, size = layout.regions[region]
        sides = expected[start : start + size], found[start : start + size]
        if region == "canary_buf":
            yield from _stamp_differences(case, step, inside, *sides)
        elif region == "violation_ring":
            appended = Appended(
                ring_rows(initial, start, size),
                case.violation_write_index,
                produced,
                _write_index(layout, found),
            )
            yield from _ring_differences(appended, *sides)
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


def hash_text(value: int) -> str:
    """An int64 hash as it is written everywhere."""
    return f"0x{value % 2**64:016x}"


def _write_index(layout: Layout, data: Bytes) -> int:
    offset, size = layout.regions["violation_write_index"]
    return int(data[offset : offset + size].view(np.int32)[0])


def _ring_differences(appended: Appended, expected: Bytes, found: Bytes) -> Iterator[Mismatch]:
    before, after = ring_rows(expected, 0, expected.size), ring_rows(found, 0, found.size)
    for difference in ring_differences(appended, after):
        yield from _row_differences(difference)
    for position in untouched_positions(appended):
        if not np.array_equal(before[position], after[position]):
            yield Mismatch(
                rank=Rank.ROW,
                order=(2, position),
                kind="violation_ring.untouched",
                place=f"violation_ring[{position}], which no launch stores to",
                expected=row_text(tuple(before[position].tolist())),
                found=row_text(tuple(after[position].tolist())),
                region="violation_ring",
                offset=position * before.shape[1] * 8,
                rows=(tuple(before[position].tolist()), tuple(after[position].tolist())),
            )


def _row_differences(difference: RingDifference) -> Iterator[Mismatch]:
    lost = iter(difference.missing)
    for position in difference.unstored[:MOST_DIFFERENCES]:
        wanted = next(lost, None)
        yield Mismatch(
            rank=Rank.ROW,
            order=(1, difference.step, position),
            kind="violation_ring.unstored",
            place=f"violation_ring[{position}]",
            expected="a row, since the write index counts it",
            found="what was there before",
            region="violation_ring",
            offset=position * len(ROW_FIELDS) * 8,
            rows=(wanted, None) if wanted else None,
        )
    for number, (wanted, given) in enumerate(_paired(difference)[:MOST_DIFFERENCES]):
        slot, position = (wanted or given or (0,) * len(ROW_FIELDS))[1:3]
        yield Mismatch(
            rank=Rank.ROW,
            order=(0, difference.step, number),
            kind=_row_kind(wanted, given),
            place=f"violation row for slot {slot}, position {position}",
            expected=row_text(wanted),
            found=row_text(given),
            region="violation_ring",
            rows=(wanted, given),
        )


def _paired(difference: RingDifference) -> list[tuple[Row | None, Row | None]]:
    """Missing rows with the extra rows most like them; rows alike in nothing stay alone."""
    missing, extra = list(difference.missing), list(difference.extra)
    pairs: list[tuple[Row | None, Row | None]] = []
    closest = sorted(
        ((_distance(row, other), row, other) for row in missing for other in extra),
        key=lambda candidate: candidate[0],
    )
    for distance, row, other in closest:
        if distance < len(ROW_FIELDS) and row in missing and other in extra:
            missing.remove(row)
            extra.remove(other)
            pairs.append((row, other))
    if not difference.full and not difference.unstored:
        pairs += [(row, None) for row in missing]
    return pairs + [(None, other) for other in extra]


def _distance(row: Row, other: Row) -> int:
    return sum(a != b for a, b in zip(row, other, strict=True))


def _row_kind(row: Row | None, twin: Row | None) -> str:
    bits = (row[-1] if row else 0) ^ (twin[-1] if twin else 0)
    if bits:
        return f"violation_ring bits {bits}"
    if row is None or twin is None:
        return "violation_ring.rows"
    fields = [name for name, a, b in zip(ROW_FIELDS, row, twin, strict=True) if a != b]
    return f"violation_ring.{fields[0]}" if fields else "violation_ring.rows"


def row_text(row: Row | None) -> str:
    """A violation row with its fields named; ``no row`` for None."""
    if row is None:
        return "no row"
    return ", ".join(
        f"{name} {text}" for name, text in zip(ROW_FIELDS, row_values(row), strict=True)
    )


def row_values(row: Row) -> tuple[str, ...]:
    """The fields of a violation row as text, in the order of ROW_FIELDS."""
    texts = [str(value) for value in row]
    texts[ROW_FIELDS.index("stored_chain_hash")] = hash_text(
        row[ROW_FIELDS.index("stored_chain_hash")]
    )
    texts[-1] = bits_text(row[-1])
    return tuple(texts)


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
