"""A third opinion on a mismatch: the scalar model says who stands alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec.structs import replace

from kv_canary_fuzz.reference import consts
from kv_canary_fuzz.strategies.case import Case, VerifyStep, WriteStep

from ..execution.layout import lay_out
from ..execution.outcome import Rows
from ..targets.builtin import load_target
from ..targets.target import Target
from .differences import differences
from .verdict import POISON, SPARE_ROWS, Side, judge

LARGEST_BYTES = 256 * 1024
"""Cases that take more than this are too slow for plain Python integers."""


def who_stands_alone(case: Case, target: Target, reference: Target | None) -> str:
    """One sentence on which of target, reference and scalar model disagrees with the other two.

    Empty where the case is too large to ask, or where the reference is the scalar model.
    """
    if lay_out(case).size > LARGEST_BYTES or (reference and reference.name == "scalar"):
        return ""
    scalar = load_target(f"scalar@{target.contract.name}")
    with_reference = judge(case, scalar, reference).agrees
    with_target = _agree(case, scalar, target)
    if with_reference and with_target:
        return "the scalar model agrees with both"
    if with_reference:
        return f"{target.name} stands alone: the scalar model agrees with the reference"
    if with_target:
        return f"the reference stands alone: the scalar model agrees with {target.name}"
    return "target, reference and scalar model all differ"


def entries_of(case: Case) -> int:
    """The entries of all the launches of a case."""
    writes = (s.out_cache_loc.length for s in case.steps if isinstance(s, WriteStep))
    verifies = (s.verify_slot_indices.length for s in case.steps if isinstance(s, VerifyStep))
    return sum(writes) + sum(verifies)


def _agree(case: Case, first: Target, second: Target) -> bool:
    """Whether two targets leave the same bytes, step by step.

    `judge` takes the rows from the torch reference, which is a party here and has no say.
    """
    left, right = Side(case, first), Side(case, second)
    layout, initial = lay_out(case), left.bytes().copy()
    produced: list[tuple[int, Rows]] = []
    for number, rows in enumerate(_rows_of(case, first)):
        produced.append((number, rows))
        if left.advance(number) != right.advance(number):
            return False
        sides = initial[: layout.size], left.bytes()[: layout.size], right.bytes()[: layout.size]
        if any(differences(case, layout, produced, *sides)):
            return False
    return True


def _rows_of(case: Case, target: Target) -> Iterator[Rows]:
    """The rows that a target appends in every step, seen in a copy of the case that has room."""
    room = max(case.ring_capacity, 2 * entries_of(case) + SPARE_ROWS)
    roomy = replace(case, ring_capacity=room, violation_write_index=0, violation_ring=POISON)
    regions = lay_out(roomy).regions
    side = Side(roomy, target)

    def words(region: str, dtype: type[np.signedinteger]) -> np.ndarray:
        start, size = regions[region]
        return side.bytes()[start : start + size].view(dtype).copy()

    for number, _ in enumerate(case.steps):
        before = int(words("violation_write_index", np.int32)[0])
        side.advance(number)
        after = int(words("violation_write_index", np.int32)[0])
        ring = words("violation_ring", np.int64).reshape(-1, consts.VIOLATION_FIELDS)
        yield ring[max(before, 0) : max(after, 0)]
