"""From a verdict to an explanation: what is wrong where, in sentences and in drawings."""

from __future__ import annotations

from collections import Counter

from kv_canary_fuzz.reference import consts
from kv_canary_fuzz.strategies.case import Case

from ..execution.arena import Bytes
from ..execution.outcome import CRASH
from ..judging.comparison import ring_rows
from ..judging.differences import FIELDS
from ..judging.mismatch import Mismatch, Rank, step_kind
from ..judging.ring import Row
from ..judging.row_differences import REFERENCES, ROW_FIELDS, row_values
from ..judging.verdict import Verdict
from .byte_maps import byte_maps
from .chains import chain_of
from .explanation import Difference, Explanation, RowPair, RowTable

MOST_DIFFERENCES = 24
MOST_ROWS = 16

MEANING = {
    "token": "the token id of the entry that was stamped",
    "position": "the position of the entry that was stamped",
    "prev_hash": (
        "the link of the chain: the mixed hash of the request's stamp before this one, or the "
        "anchor's where there is none"
    ),
    "real_kv_hash": "the hash folded over the slot's real KV bytes, or 0 where nothing is hashed",
    "padding": "bytes past the first 32 of a slot, which are nobody's and must stay as they are",
}

RANK_MEANING = {
    Rank.EXCEPTION: (
        "Both sides must refuse the same launches with the same error, and run all others."
    ),
    Rank.ROW: (
        "A violation row is what a launch reports about one slot. Rows of one launch may stand in "
        "any order, so they are compared as whole rows, order apart."
    ),
    Rank.INDEX: "The write index counts every row, also those that the ring has no room for.",
    Rank.COUNTER: (
        "Counters say how many slots and launches were handled; a wrong one hides work that was "
        "not done."
    ),
    Rank.INPUT: "This is an input of the launch, which must be left as it is.",
    Rank.GUARD: "No tensor owns this byte: the kernel wrote outside of everything it was given.",
}


def explain(case: Case, verdict: Verdict) -> Explanation:
    """The explanation of a verdict that found a difference on ``case``."""
    cause = verdict.mismatches[0]
    step = step_kind(case.steps[verdict.step])
    return Explanation(
        step=verdict.step,
        step_kind=step,
        headline=_headline(case, cause, f"step {verdict.step} ({step})"),
        meaning=_meaning(case, cause),
        differences=tuple(
            Difference(m.kind, m.place, *_sides_text(m))
            for m in verdict.mismatches[:MOST_DIFFERENCES]
        ),
        more=max(0, len(verdict.mismatches) - MOST_DIFFERENCES),
        maps=byte_maps(case, verdict),
        chain=chain_of(case, verdict),
        rows=_row_table(verdict),
    )


def _sides_text(mismatch: Mismatch) -> tuple[str, str]:
    """What was expected and found; of two rows the fields that differ, since the rest is alike."""
    if mismatch.rows is None or None in mismatch.rows:
        return mismatch.expected, mismatch.found
    values = [row_values(row) for row in mismatch.rows if row is not None]
    wrong = [k for k, name in enumerate(ROW_FIELDS) if values[0][k] != values[1][k]]
    expected, found = (", ".join(f"{ROW_FIELDS[k]} {v[k]}" for k in wrong) for v in values)
    return expected, found


def _headline(case: Case, cause: Mismatch, step: str) -> str:
    if cause.rank is Rank.STAMP:
        slot, field = _field(case, cause)
        return f"After {step}, slot {slot} holds the wrong {field}."
    if cause.rank is Rank.ROW:
        whose = ", in the reference's ring" if cause.kind.startswith(REFERENCES) else ""
        return f"After {step}{whose}, {_row_headline(cause)}."
    if cause.kind.startswith(CRASH):
        return f"At {step}, the process that ran the launch ended: {cause.kind}."
    if cause.rank is Rank.EXCEPTION:
        return f"At {step}, the two sides end differently: one refuses, or refuses otherwise."
    if cause.rank is Rank.GUARD:
        return f"After {step}, a byte outside every tensor was written: {cause.place}."
    if cause.rank is Rank.INPUT:
        return f"After {step}, an input was written to: {cause.place}."
    return f"After {step}, {cause.place} is wrong."


def _row_headline(cause: Mismatch) -> str:
    if cause.kind.removeprefix(REFERENCES) == "violation_ring.unstored":
        return f"{cause.place} was counted by the write index and never stored"
    if cause.rows is None:
        return f"{cause.place}: expected {cause.expected}, found {cause.found}"
    wanted, given = cause.rows
    if wanted is None:
        return f"there is a violation row for slot {given[1] if given else 0} that must not be"
    if given is None:
        return f"the violation row for slot {wanted[1]} is missing"
    wrong = [name for name, a, b in zip(ROW_FIELDS, wanted, given, strict=True) if a != b]
    return f"the violation row for slot {wanted[1]} has the wrong {' and '.join(wrong)}"


def _meaning(case: Case, cause: Mismatch) -> str:
    if cause.kind.startswith(CRASH):
        return "A launch must return, or refuse, whatever its inputs."
    if cause.rank is not Rank.STAMP:
        return RANK_MEANING[cause.rank]
    _, field = _field(case, cause)
    first = cause.offset % case.slot_stride_bytes
    last = first + 7 if field in FIELDS else case.slot_stride_bytes - 1
    return f"Bytes {first} to {last} of a slot are {field}, {MEANING[field]}."


def _field(case: Case, cause: Mismatch) -> tuple[int, str]:
    slot, inside = divmod(cause.offset, case.slot_stride_bytes)
    return slot, FIELDS[inside // 8] if inside < consts.CANARY_SLOT_BYTES else "padding"


def _row_table(verdict: Verdict) -> RowTable | None:
    """The rows that differ, then those in the ring that both sides have."""
    pairs = [
        RowPair(*(None if row is None else row_values(row) for row in mismatch.rows))
        for mismatch in verdict.mismatches
        if mismatch.rows is not None
    ]
    if not pairs:
        return None
    expected, found = (_stored(verdict, side) for side in (verdict.expected, verdict.found))
    pairs += [RowPair(row_values(r), row_values(r)) for r in (expected & found).elements()]
    return RowTable(ROW_FIELDS, tuple(pairs[:MOST_ROWS]), max(0, len(pairs) - MOST_ROWS))


def _stored(verdict: Verdict, side: Bytes) -> Counter[Row]:
    """The rows in the ring before its write index."""
    index = verdict.layout.regions["violation_write_index"]
    end = int(side[index.offset : index.end].view("<i4")[0])
    ring = verdict.layout.regions["violation_ring"]
    rows = ring_rows(side, ring.offset, ring.size)[: max(0, end)]
    return Counter(tuple(row) for row in rows.tolist())
