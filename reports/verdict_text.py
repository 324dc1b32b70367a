"""Where two implementations part, with the bytes that differ and the names of their fields."""

from __future__ import annotations

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from kv_canary_fuzz.harness.judging.differences import FIELDS
from kv_canary_fuzz.harness.judging.row_differences import ROW_FIELDS
from kv_canary_fuzz.harness.judging.verdict import Verdict
from kv_canary_fuzz.strategies.case import Case

MOST_MISMATCHES = 16
MOST_LINES = 24
"""Lines of the hex view; the first differences are what a reader needs."""

_LINE_BYTES = 8


def verdict_text(case: Case, verdict: Verdict) -> RenderableType:
    """The verdict's differences, causes first, and a hex view of the bytes that differ."""
    if verdict.agrees:
        return Text("the two sides agree")
    parts: list[RenderableType] = [
        Text(f"\nafter step {verdict.step} the two sides differ ({verdict.signature}):")
    ]
    parts += [Text(f"  {mismatch.line()}") for mismatch in verdict.mismatches[:MOST_MISMATCHES]]
    more = len(verdict.mismatches) - MOST_MISMATCHES
    if more > 0:
        parts.append(Text(f"  and {more} more"))
    view = hex_view(case, verdict)
    if view:
        parts.append(
            Text("\nbytes that differ (expected, then found; differing bytes in brackets):")
        )
        parts += [Text(line, no_wrap=True) for line in view]
    return Group(*parts)


def hex_view(case: Case, verdict: Verdict) -> list[str]:
    """Eight bytes a line, each line with the region and the field that it belongs to."""
    differing = np.flatnonzero(verdict.expected != verdict.found)
    starts = np.unique(differing // _LINE_BYTES)[:MOST_LINES] * _LINE_BYTES
    lines = []
    for start in starts.tolist():
        expected = verdict.expected[start : start + _LINE_BYTES].tolist()
        found = verdict.found[start : start + _LINE_BYTES].tolist()
        lines.append(f"  {_name(case, verdict, start):<44} {_hex(expected, found)}")
        lines.append(f"  {'':<44} {_hex(found, expected)}")
    return lines


def _hex(data: list[int], other: list[int]) -> str:
    return " ".join(
        f"[{a:02x}]" if a != b else f" {a:02x} " for a, b in zip(data, other, strict=True)
    )


def _name(case: Case, verdict: Verdict, offset: int) -> str:
    place = verdict.layout.locate(offset)
    if place is None:
        return f"guard band, byte {offset} of the arena"
    region, inside = place
    if region == "canary_buf":
        slot, rest = divmod(inside, case.slot_stride_bytes)
        return f"slot {slot} {FIELDS[rest // 8] if rest < 32 else 'padding'}"
    if region == "violation_ring":
        row, rest = divmod(inside, len(ROW_FIELDS) * 8)
        return f"violation_ring[{row}] {ROW_FIELDS[rest // 8]}"
    return f"{region} +{inside}"
