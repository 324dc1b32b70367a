"""Shrinking with made-up predicates, down to the exact minimum."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from msgspec.structs import replace

from kv_canary_fuzz.harness.findings.shrinker import ShrinkResult, shrink
from kv_canary_fuzz.strategies.case import (
    Case,
    Column,
    CorruptStep,
    Fault,
    Flip,
    Source,
    Step,
    VerifyStep,
    WriteStep,
)
from kv_canary_fuzz.strategies.classify import Domain, check_case, classify
from kv_canary_fuzz.strategies.columns import expand, head
from kv_canary_fuzz.strategies.prng import case_at
from kv_canary_fuzz.strategies.simplify.order import complexity

ONE = Column(length=1)
NO_WRITE = WriteStep(
    write_offsets=Column(length=2),
    write_seed_slot_indices=Column(values=(-1,), length=1),
    write_num_valid_reqs=0,
    input_ids=Column(),
    positions=Column(),
    out_cache_loc=Column(),
)
ONE_WRITE = WriteStep(
    write_offsets=Column(values=(0, 1), length=2),
    write_seed_slot_indices=Column(values=(-1,), length=1),
    write_num_valid_reqs=1,
    input_ids=ONE,
    positions=ONE,
    out_cache_loc=ONE,
)
NO_VERIFY = VerifyStep(
    verify_slot_indices=ONE,
    verify_expected_tokens=ONE,
    verify_expected_positions=ONE,
    verify_prev_slot_indices=ONE,
    verify_num_valid=0,
)

Predicate = Callable[[Case], bool]


def shrunk(case: Case, predicate: Predicate) -> ShrinkResult:
    assert predicate(case)
    return shrink(case, predicate, budget_seconds=1000)


def written(case: Case) -> Iterator[tuple[int, int]]:
    """(slot, token) of every entry that a request has."""
    for step in case.steps:
        if isinstance(step, WriteStep):
            used = head(step.write_offsets, max(step.write_num_valid_reqs, 0) + 1)
            slots, tokens = expand(step.out_cache_loc), expand(step.input_ids)
            yield from zip(slots[used[0] : used[-1]], tokens[used[0] : used[-1]], strict=True)


def wide_token(case: Case) -> bool:
    return any(slot >= 0 and not -(2**31) <= token < 2**31 for slot, token in written(case))


def any_step(kind: type[Step]) -> Predicate:
    return lambda case: any(isinstance(step, kind) for step in case.steps)


def test_anything_fails(forty_entries: Case) -> None:
    assert shrunk(forty_entries, lambda _: True).case == Case(num_slots=1)


def test_a_write(forty_entries: Case) -> None:
    assert shrunk(forty_entries, any_step(WriteStep)).case == Case(num_slots=1, steps=(NO_WRITE,))


def test_a_verify(forty_entries: Case) -> None:
    assert shrunk(forty_entries, any_step(VerifyStep)).case == Case(num_slots=1, steps=(NO_VERIFY,))


@pytest.mark.parametrize("token", [2**31, -(2**31) - 1, 5 * 2**33 + 77, -(2**63)])
def test_a_token_outside_int32(forty_entries: Case, token: int) -> None:
    write = forty_entries.steps[0]
    assert isinstance(write, WriteStep)
    tokens = replace(write.input_ids, values=(*write.input_ids.values[:23], token, *range(16)))
    case = replace(forty_entries, steps=(replace(write, input_ids=tokens), forty_entries.steps[2]))
    least = replace(ONE_WRITE, input_ids=Column(values=(2**31,), length=1))
    assert shrunk(case, wide_token).case == Case(num_slots=1, steps=(least,))


def test_one_form_from_twenty_campaigns() -> None:
    forms = set()
    for seed in range(20):
        cases = (case_at(seed, index) for index in range(1000))
        forms.add(shrunk(next(case for case in cases if wide_token(case)), wide_token).case)
    least = replace(ONE_WRITE, input_ids=Column(values=(2**31,), length=1))
    assert forms == {Case(num_slots=1, steps=(least,))}


def test_two_requests_and_a_ring_row(forty_entries: Case) -> None:
    def predicate(case: Case) -> bool:
        return case.ring_capacity > 0 and any(
            isinstance(step, WriteStep)
            and sum(a < b for a, b in zip(*_bounds(step), strict=True)) >= 2
            for step in case.steps
        )

    two = WriteStep(
        write_offsets=Column(values=(0, 1, 2), length=3),
        write_seed_slot_indices=Column(values=(-1, -1), length=2),
        write_num_valid_reqs=2,
        input_ids=Column(length=2),
        positions=Column(length=2),
        out_cache_loc=Column(values=(0, -1), length=2),
    )
    assert shrunk(forty_entries, predicate).case == Case(num_slots=1, ring_capacity=1, steps=(two,))


def _bounds(step: WriteStep) -> tuple[tuple[int, ...], tuple[int, ...]]:
    offsets = head(step.write_offsets, step.write_num_valid_reqs + 1)
    return offsets[:-1], offsets[1:]


def test_a_chain_of_three_predecessors(forty_entries: Case) -> None:
    def predicate(case: Case) -> bool:
        return any(isinstance(step, VerifyStep) and _longest(step) >= 3 for step in case.steps)

    verify = VerifyStep(
        verify_slot_indices=Column(values=(1, 2, 3), length=3),
        verify_expected_tokens=Column(length=3),
        verify_expected_positions=Column(length=3),
        verify_prev_slot_indices=Column(values=(-1, 1, 2), length=3),
        verify_num_valid=3,
    )
    assert shrunk(forty_entries, predicate).case == Case(num_slots=4, steps=(verify,))


def _longest(step: VerifyStep) -> int:
    """The longest chain of different slots that starts at an anchor."""
    length: dict[int, int] = {}
    count = step.verify_num_valid
    for slot, before in zip(
        head(step.verify_slot_indices, count),
        head(step.verify_prev_slot_indices, count),
        strict=True,
    ):
        if slot > 0 and slot not in length:
            length[slot] = 1 if before == -1 else length.get(before, -99) + 1
    return max(length.values(), default=0)


def test_a_flip_inside_the_folded_bytes_of_the_second_source(forty_entries: Case) -> None:
    def predicate(case: Case) -> bool:
        return any(
            isinstance(edit, Flip) and edit.region.startswith("real_kv_sources[1]")
            for step in case.steps
            if isinstance(step, CorruptStep)
            for edit in step.edits
        )

    source = Source(rows=1, row_bytes=16, page_size=1, num_bytes_per_token=16, read_bytes=16)
    flip = Flip(region="real_kv_sources[1].tensor", offset=0, mask=1)
    assert shrunk(forty_entries, predicate).case == Case(
        num_slots=1, real_kv_sources=(source, source), steps=(CorruptStep(edits=(flip,)),)
    )


@pytest.mark.parametrize("count", [1, 31, 32, 33, 200, 513])
def test_a_count_of_verify_entries(count: int) -> None:
    column = Column(values=tuple(range(600)), length=600)
    verify = VerifyStep(
        verify_slot_indices=column,
        verify_expected_tokens=column,
        verify_expected_positions=column,
        verify_prev_slot_indices=column,
        verify_num_valid=600,
    )
    case = Case(num_slots=700, steps=(verify,))
    zeros = Column(length=count)
    least = replace(NO_VERIFY, verify_num_valid=count, **dict.fromkeys(_COLUMNS, zeros))

    def predicate(candidate: Case) -> bool:
        verifies = [step for step in candidate.steps if isinstance(step, VerifyStep)]
        return any(_active(step) >= count for step in verifies)

    result = shrunk(case, predicate)
    assert result.case == Case(num_slots=1, steps=(least,))


_COLUMNS = (
    "verify_slot_indices",
    "verify_expected_tokens",
    "verify_expected_positions",
    "verify_prev_slot_indices",
)


def _active(step: VerifyStep) -> int:
    return min(step.verify_num_valid, step.verify_slot_indices.length)


def test_the_last_of_seventy_thousand_requests() -> None:
    write = WriteStep(
        write_offsets=Column(length=70_001, tail=(1,)),
        write_seed_slot_indices=Column(length=70_000, fill=-1),
        write_num_valid_reqs=70_000,
        input_ids=Column(values=(9,), length=1),
        positions=Column(values=(4,), length=1),
        out_cache_loc=Column(values=(3,), length=1),
    )

    def predicate(case: Case) -> bool:
        return any(
            isinstance(step, WriteStep)
            and step.write_num_valid_reqs > 65_535
            and step.write_offsets.tail == (1,)
            for step in case.steps
        )

    result = shrunk(Case(num_slots=5, steps=(write,)), predicate)
    least = replace(
        ONE_WRITE,
        write_offsets=Column(length=65_537, tail=(1,)),
        write_seed_slot_indices=Column(length=65_536, fill=-1),
        write_num_valid_reqs=65_536,
    )
    assert result.case == Case(num_slots=1, steps=(least,))


def test_a_fault_keeps_its_kind(forty_entries: Case) -> None:
    faults = (
        Fault(kind="rank", tensor="real_kv_sources[1].tensor", amount=3),
        Fault(kind="not_contiguous", tensor="positions"),
    )
    write = replace(forty_entries.steps[0], faults=faults)
    case = replace(forty_entries, steps=(write, *forty_entries.steps[1:]))

    def predicate(candidate: Case) -> bool:
        return any(
            fault.kind == "rank"
            for step in candidate.steps
            if isinstance(step, WriteStep)
            for fault in step.faults
        )

    least = replace(
        NO_WRITE,
        write_offsets=Column(length=1),
        write_seed_slot_indices=Column(),
        faults=(Fault(kind="rank", tensor="real_kv_sources[0].tensor", amount=1),),
    )
    source = Source(rows=1, row_bytes=16, page_size=1, num_bytes_per_token=16, read_bytes=16)
    assert shrunk(case, predicate).case == Case(
        num_slots=1, real_kv_sources=(source,), steps=(least,)
    )


def test_every_candidate_is_legal_simpler_and_asked_once(forty_entries: Case) -> None:
    asked: list[Case] = []
    best = [forty_entries]

    def predicate(case: Case) -> bool:
        check_case(case)
        assert classify(case) is Domain.VALID
        assert complexity(case) < complexity(best[-1])
        asked.append(case)
        return wide_token(case) or sum(1 for _ in written(case)) >= 2

    result = shrink(forty_entries, predicate, budget_seconds=1000, on_better=best.append)
    assert len(asked) == len(set(asked)) == result.tries
    assert best[-1] == result.case
    assert result.steps == len(best) - 1
    assert result.tries <= 400
