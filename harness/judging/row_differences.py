"""Differences between two violation rings, row by row, explained."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec.structs import replace

from ..execution.outcome import Rows
from .mismatch import MOST_DIFFERENCES, Mismatch, Rank, bits_text, hash_text
from .ring import Appended, RingDifference, Row, ring_differences, untouched_positions

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

REFERENCES = "the reference's "
"""How the kind and the place of a mismatch begin that is the reference's own fault."""


def row_differences(appended: Appended, ring: Rows) -> Iterator[Mismatch]:
    """Rows that the launches of ``appended`` should have left, and rows that they should not."""
    for difference in ring_differences(appended, ring):
        yield from _launch_differences(difference)
    for position in untouched_positions(appended):
        if not np.array_equal(appended.initial[position], ring[position]):
            before, after = (tuple(r[position].tolist()) for r in (appended.initial, ring))
            yield Mismatch(
                rank=Rank.ROW,
                order=(2, position),
                kind="violation_ring.untouched",
                place=f"violation_ring[{position}], which no launch stores to",
                expected=row_text(before),
                found=row_text(after),
                region="violation_ring",
                offset=position * ring.shape[1] * 8,
                rows=(before, after),
            )


def blamed_on_reference(mismatch: Mismatch) -> Mismatch:
    """What `row_differences` says of a ring, said of the reference's own.

    No region: the bytes that differ from the target's are right there.
    """
    kind, place = f"{REFERENCES}{mismatch.kind}", f"{REFERENCES}{mismatch.place}"
    return replace(mismatch, kind=kind, place=place, region="", offset=0)


def _launch_differences(difference: RingDifference) -> Iterator[Mismatch]:
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
    values = zip(ROW_FIELDS, row_values(row), strict=True)
    return ", ".join(f"{name} {text}" for name, text in values)


def row_values(row: Row) -> tuple[str, ...]:
    """The fields of a violation row as text, in the order of ROW_FIELDS."""
    texts = {name: str(value) for name, value in zip(ROW_FIELDS, row, strict=True)}
    texts["stored_chain_hash"] = hash_text(row[ROW_FIELDS.index("stored_chain_hash")])
    texts["fail_reason_bits"] = bits_text(row[-1])
    return tuple(texts.values())
