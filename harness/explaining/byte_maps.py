"""Bytes around a verdict's differences, slot by slot, with the fields that they belong to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from kv_canary_fuzz.reference import consts
from kv_canary_fuzz.strategies.case import Case, WriteStep

from ..execution.arena import Bytes
from ..execution.layout import Region
from ..judging.differences import FIELDS
from ..judging.mismatch import Mismatch, Rank
from ..judging.row_differences import ROW_FIELDS
from ..judging.stamps import stamps
from ..judging.verdict import Verdict
from .explanation import ByteGroup, ByteLine, ByteMap

MOST_LINES = 12
"""Lines of one map; a reader needs the first ones, and the file has the rest."""

MOST_MAPS = 4
WORD = 8
STRETCH = 16

_SOURCE = re.compile(r"real_kv_sources\[(\d)\]\.tensor")


def byte_maps(case: Case, verdict: Verdict) -> tuple[ByteMap, ...]:
    """A map for each region that differs, the first cause's first.

    Violation rows have maps of their own, row beside row, since their order in the ring is free.
    """
    maps: list[ByteMap] = []
    done: set[str] = set()
    for mismatch in verdict.mismatches:
        name = _map_name(mismatch)
        if name in done:
            continue
        done.add(name)
        drawn = _draw(case, verdict, mismatch)
        if drawn is not None:
            maps.append(drawn)
    return tuple(maps[:MOST_MAPS])


def _map_name(mismatch: Mismatch) -> str:
    if mismatch.rank is Rank.GUARD:
        return mismatch.kind
    if mismatch.rank is Rank.ROW:
        return "violation_ring"
    return mismatch.region or mismatch.rank.name


def _draw(case: Case, verdict: Verdict, mismatch: Mismatch) -> ByteMap | None:
    if mismatch.rank is Rank.STAMP:
        return _slot_map(case, verdict)
    if mismatch.rank is Rank.ROW:
        return _row_map(verdict)
    if mismatch.rank is Rank.GUARD:
        return _guard_map(verdict, mismatch)
    if mismatch.region in verdict.layout.regions:
        return _region_map(case, verdict, mismatch.region)
    return None


def _slot_map(case: Case, verdict: Verdict) -> ByteMap:
    stride = case.slot_stride_bytes
    expected, found = (
        data.reshape(-1, stride) for data in _sides(verdict, verdict.layout.regions["canary_buf"])
    )
    differs = expected != found
    groups = [ByteGroup(name, 8 * field, 8) for field, name in enumerate(FIELDS)]
    groups += [
        ByteGroup("padding", start, WORD)
        for start in range(consts.CANARY_SLOT_BYTES, stride, WORD)
        if differs[:, start : start + WORD].any()
    ]
    slots = np.flatnonzero(differs.any(axis=1)).tolist()
    step = case.steps[verdict.step]
    owners = stamps(step, case.num_slots) if isinstance(step, WriteStep) else {}
    lines = []
    for slot in _with_neighbours(slots, len(expected)):
        owner = owners.get(slot)
        note = f"request {owner.request}, entry {owner.entry}" if owner else "not stamped"
        lines.append(_line(f"slot {slot}", expected[slot], found[slot], groups, note))
    return ByteMap(
        title="canary_buf", unit="slot", groups=tuple(groups), lines=tuple(lines),
        more=_hidden(slots),
    )  # fmt: skip


def _row_map(verdict: Verdict) -> ByteMap | None:
    pairs = [m.rows for m in verdict.mismatches if m.rows is not None]
    if not pairs:
        return None
    groups = tuple(ByteGroup(name, 8 * field, 8) for field, name in enumerate(ROW_FIELDS))
    lines = []
    for wanted, given in pairs[:MOST_LINES]:
        row = wanted or given
        assert row is not None
        lines.append(ByteLine(f"slot {row[1]}", _row_hex(wanted), _row_hex(given)))
    more = max(0, len(pairs) - MOST_LINES)
    return ByteMap("violation rows", "row", groups, tuple(lines), more)


def _row_hex(row: tuple[int, ...] | None) -> str:
    return "" if row is None else np.array(row, "<i8").tobytes().hex()


def _guard_map(verdict: Verdict, mismatch: Mismatch) -> ByteMap:
    """Lines from the end of the region before the guard on, counted from that end."""
    ends = [region.end for region in verdict.layout.regions.values()]
    base = max((end for end in ends if end <= mismatch.offset), default=0)
    limit = min(
        (r.offset for r in verdict.layout.regions.values() if r.offset > mismatch.offset),
        default=verdict.layout.size,
    )
    return _stretches(verdict, Region(base, limit - base), mismatch.kind, STRETCH)


def _region_map(case: Case, verdict: Verdict, name: str) -> ByteMap:
    region = verdict.layout.regions[name]
    if region.size <= WORD:
        expected, found = _sides(verdict, region)
        group = (ByteGroup(name.split(".", 1)[-1], 0, region.size),)
        return ByteMap(name, "value", group, (_line("value", expected, found, group),))
    source = _SOURCE.fullmatch(name)
    width = STRETCH if source else WORD
    drawn = _stretches(verdict, region, name, width)
    if source is None:
        return drawn
    columns = case.real_kv_sources[int(source[1])].row_step
    lines = tuple(
        ByteLine(_source_label(line.label, columns), line.expected, line.found)
        for line in drawn.lines
    )
    return ByteMap(name, "16 bytes", drawn.groups, lines, drawn.more)


def _source_label(offset: str, row_step: int) -> str:
    row, column = divmod(int(offset.removeprefix("+")), row_step)
    return f"row {row} +{column}"


def _stretches(verdict: Verdict, region: Region, title: str, width: int) -> ByteMap:
    expected, found = _sides(verdict, region)
    total = -(-region.size // width)
    differing = sorted(set((np.flatnonzero(expected != found) // width).tolist()))
    groups = tuple(ByteGroup(f"bytes {k} to {k + 7}", k, WORD) for k in range(0, width, WORD))
    lines = []
    for number in _with_neighbours(differing, total):
        part = slice(number * width, (number + 1) * width)
        lines.append(_line(f"+{number * width}", expected[part], found[part], groups))
    return ByteMap(title, f"{width} bytes", groups, tuple(lines), _hidden(differing))


def _sides(verdict: Verdict, region: Region) -> tuple[Bytes, Bytes]:
    part = slice(region.offset, region.end)
    return verdict.expected[part], verdict.found[part]


def _line(
    label: str, expected: Bytes, found: Bytes, groups: Sequence[ByteGroup], note: str = ""
) -> ByteLine:
    return ByteLine(label, _hex(expected, groups), _hex(found, groups), note)


def _hex(data: Bytes, groups: Sequence[ByteGroup]) -> str:
    return "".join(bytes(data[g.start : g.start + g.size]).hex() for g in groups)


def _with_neighbours(numbers: Sequence[int], total: int) -> Iterator[int]:
    """The first numbers, each with the one before and the one behind while there is room."""
    chosen = set(numbers[:MOST_LINES])
    for number in list(chosen):
        for near in (number - 1, number + 1):
            if 0 <= near < total and len(chosen) < MOST_LINES:
                chosen.add(near)
    return iter(sorted(chosen))


def _hidden(numbers: Sequence[int]) -> int:
    return max(0, len(numbers) - MOST_LINES)
