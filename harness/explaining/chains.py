"""The chain that a finding is about, link by link, with the first broken one marked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from kv_canary_fuzz.reference import consts
from kv_canary_fuzz.reference.scalar_hashing import mix3, splitmix64
from kv_canary_fuzz.strategies.case import Case, VerifyStep, WriteStep
from kv_canary_fuzz.strategies.columns import at

from ..execution.arena import Bytes
from ..judging.differences import FIELDS
from ..judging.mismatch import Mismatch, Rank, hash_text
from ..judging.stamps import entries_of, stamps
from ..judging.verdict import Verdict
from .explanation import Chain, Link, LinkState

BEFORE, AFTER = 4, 8
"""Entries shown before and after the first one that is wrong."""

ANCHOR = splitmix64(consts.CANARY_CHAIN_ANCHOR)
Fields = tuple[int, ...]


def chain_of(case: Case, verdict: Verdict) -> Chain | None:
    """The chain that the verdict's first cause lies in; None where it lies in none."""
    step = case.steps[verdict.step]
    cause = verdict.mismatches[0]
    if isinstance(step, WriteStep):
        return _written_chain(case, step, verdict, cause)
    if isinstance(step, VerifyStep) and cause.rank is Rank.ROW:
        return _verified_chain(case, step, verdict, cause)
    return None


def _written_chain(case: Case, step: WriteStep, verdict: Verdict, cause: Mismatch) -> Chain | None:
    slot = _slot_of(case, cause)
    owner = stamps(step, case.num_slots).get(slot) if slot is not None else None
    if owner is None:
        return None
    expected, found = _slots(case, verdict.expected, verdict), _slots(case, verdict.found, verdict)
    seed = at(step.write_seed_slot_indices, owner.request)
    previous = f"slot {seed} (seed)" if 0 <= seed < case.num_slots else "anchor"
    links = []
    for entry in entries_of(step, owner.request):
        place = at(step.out_cache_loc, entry)
        token, position = at(step.input_ids, entry), at(step.positions, entry)
        if not 0 <= place < case.num_slots:
            skipped = LinkState.SKIPPED
            links.append(Link(entry, place, previous, token, position, "", "", skipped))
            continue
        links.append(_stamped(entry, place, previous, token, position, expected, found))
        previous = f"slot {place}"
    title = f"Request {owner.request} of the write, entry by entry"
    return _cut(title, links, slot)


def _stamped(
    entry: int,
    slot: int,
    previous: str,
    token: int,
    position: int,
    expected: Sequence[Fields],
    found: Sequence[Fields],
) -> Link:
    wrong = tuple(
        name for name, a, b in zip(FIELDS, expected[slot], found[slot], strict=True) if a != b
    )
    state = LinkState.BROKEN if "prev_hash" in wrong else LinkState.HOLDS
    hashes = hash_text(expected[slot][2]), hash_text(found[slot][2])
    return Link(entry, slot, previous, token, position, *hashes, state, wrong)


def _verified_chain(
    case: Case, step: VerifyStep, verdict: Verdict, cause: Mismatch
) -> Chain | None:
    slots = _slots(case, verdict.expected, verdict)
    active = max(0, min(step.verify_num_valid, step.verify_slot_indices.length))
    links = []
    for entry in range(min(active, 4096)):
        slot = at(step.verify_slot_indices, entry)
        before = at(step.verify_prev_slot_indices, entry)
        if not 0 < slot < case.num_slots:
            skipped = LinkState.SKIPPED
            links.append(Link(entry, slot, _predecessor(before), 0, 0, "", "", skipped))
            continue
        links.append(_checked(case, entry, slot, before, slots))
    if not links:
        return None
    return _cut("The verify plan, entry by entry", links, _slot_of(case, cause))


def _checked(case: Case, entry: int, slot: int, before: int, slots: Sequence[Fields]) -> Link:
    token, position, stored, _ = slots[slot]
    state, wanted = LinkState.UNCHECKED, hash_text(stored)
    if before < 0 or 0 < before < case.num_slots:
        value = ANCHOR if before < 0 else _successor_hash(slots[before])
        wanted = hash_text(value)
        state = LinkState.HOLDS if wanted == hash_text(stored) else LinkState.BROKEN
    return Link(
        entry, slot, _predecessor(before), token, position, wanted, hash_text(stored), state
    )


def _predecessor(slot: int) -> str:
    return "anchor" if slot < 0 else f"slot {slot}"


def _successor_hash(fields: Fields) -> int:
    token, position, prev_hash, _ = fields
    return mix3(prev_hash, token, position)


def _slots(case: Case, arena: Bytes, verdict: Verdict) -> list[Fields]:
    region = verdict.layout.regions["canary_buf"]
    rows = arena[region.offset : region.end].reshape(case.num_slots, case.slot_stride_bytes)
    words = np.ascontiguousarray(rows[:, : consts.CANARY_SLOT_BYTES]).view(np.int64)
    return [tuple(row) for row in words.tolist()]


def _slot_of(case: Case, cause: Mismatch) -> int | None:
    if cause.rank is Rank.STAMP:
        return cause.offset // case.slot_stride_bytes
    if cause.rows is not None:
        row = cause.rows[0] or cause.rows[1]
        return row[1] if row is not None else None
    return None


def _cut(title: str, links: list[Link], slot: int | None) -> Chain:
    """Mark the first entry that is wrong, say what is wrong there, and keep its surroundings."""
    broken = next((k for k, link in enumerate(links) if link.state is LinkState.BROKEN), None)
    blamed = next((k for k, link in enumerate(links) if link.wrong), None)
    if blamed is None:
        blamed = next((k for k, link in enumerate(links) if link.slot == slot), None)
    first = broken if broken is not None else blamed
    if first is None:
        return Chain(title, tuple(links[:AFTER]), "every link holds", 0, len(links[AFTER:]))
    links[first] = replace(links[first], first=True)
    start, end = max(0, first - BEFORE), min(len(links), first + AFTER)
    shown = tuple(links[start:end])
    return Chain(title, shown, _verdict(links, broken, blamed), start, len(links) - end)


def _verdict(links: Sequence[Link], broken: int | None, blamed: int | None) -> str:
    if broken is not None:
        link = links[broken]
        return (
            f"The first broken link is at entry {link.entry}: slot {link.slot} does not store the "
            f"hash that follows from {link.predecessor}."
        )
    assert blamed is not None
    link = links[blamed]
    fields = f" ({', '.join(link.wrong)} differs)" if link.wrong else ""
    return (
        f"No link is broken; the two sides differ at entry {link.entry}, slot {link.slot}{fields}."
    )
