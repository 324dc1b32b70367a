"""Domains of cases, and values that are no cases."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import Struct
from msgspec.structs import replace

from kv_canary_fuzz.strategies.case import (
    Case,
    Column,
    CorruptStep,
    Fault,
    Flip,
    Source,
    SwapSlots,
    VerifyStep,
    WriteStep,
)
from kv_canary_fuzz.strategies.classify import Domain, MalformedCase, check_case, classify
from kv_canary_fuzz.strategies.content import Content, Patch

TOP = 2**63 - 1
SOURCE = Source(rows=4, row_bytes=112, page_size=3, num_bytes_per_token=32, read_bytes=16)
WRITE = WriteStep(
    write_offsets=Column(values=(0, 2, 3), length=4, fill=-9),
    write_seed_slot_indices=Column(values=(-1, 9), length=3, fill=77),
    write_num_valid_reqs=2,
    input_ids=Column(values=(1, 2, 3), length=5),
    positions=Column(values=(4, 5, 6), length=5),
    out_cache_loc=Column(values=(1, -1, 3), length=5, fill=77),
    enable_chain_position_assert=1,
)
VERIFY = VerifyStep(
    verify_slot_indices=Column(values=(1, 0), length=3, fill=77),
    verify_expected_tokens=Column(values=(1, 0), length=3),
    verify_expected_positions=Column(values=(4, 0), length=3),
    verify_prev_slot_indices=Column(values=(-1, -5), length=3, fill=77),
    verify_num_valid=2,
)
CORRUPT = CorruptStep(edits=(Flip(region="canary_buf", offset=40, mask=1),))
VALID = Case(
    num_slots=10,
    canary_buf=Content(fill=0),
    real_kv_sources=(SOURCE,),
    ring_capacity=2,
    steps=(WRITE, CORRUPT, VERIFY),
)


def with_step(index: int, **changes: object) -> Case:
    """The valid case with fields of one step replaced."""
    steps = list(VALID.steps)
    steps[index] = replace(steps[index], **changes)
    return replace(VALID, steps=tuple(steps))


def values(column: Column, *numbers: int) -> Column:
    return replace(column, values=numbers)


def offsets(*numbers: int) -> Case:
    return with_step(0, write_offsets=values(WRITE.write_offsets, *numbers))


def slots(*numbers: int) -> Case:
    return with_step(0, out_cache_loc=values(WRITE.out_cache_loc, *numbers))


def seeds(*numbers: int) -> Case:
    return with_step(0, write_seed_slot_indices=values(WRITE.write_seed_slot_indices, *numbers))


def test_poison_in_tails_leaves_a_case_valid() -> None:
    check_case(VALID)
    assert classify(VALID) is Domain.VALID


@pytest.mark.parametrize(
    "case",
    [
        with_step(0, write_num_valid_reqs=4),
        with_step(0, write_num_valid_reqs=-1),
        offsets(-1, 2, 3),
        offsets(0, 3, 2),
        offsets(0, 2, 6),
        slots(1, -1, 10),
        seeds(-1, 10),
        with_step(0, write_offsets=Column(length=1), write_seed_slot_indices=Column(),
                  write_num_valid_reqs=0),
        with_step(2, verify_num_valid=4),
        with_step(2, verify_num_valid=-1),
        with_step(2, verify_slot_indices=values(VERIFY.verify_slot_indices, -1, 0)),
        with_step(2, verify_slot_indices=values(VERIFY.verify_slot_indices, 10, 0)),
        with_step(2, verify_prev_slot_indices=values(VERIFY.verify_prev_slot_indices, 10, 0)),
        replace(VALID, violation_write_index=-1),
        replace(VALID, violation_write_index=2**31 - 3),
        replace(VALID, slot_run_counter=TOP - 1),
        replace(VALID, kernel_run_counter=TOP - 1),
    ],
)  # fmt: skip
def test_inputs_that_upstream_leaves_open_are_hardened(case: Case) -> None:
    check_case(case)
    assert classify(case) is Domain.HARDENED


def test_the_position_assert_must_not_wrap() -> None:
    """Request 1 continues from slot 9: from its stored position, patched or flipped."""
    patch = Patch(offset=9 * 32 + 8, hex="ffffffffffffff7f")
    patched = replace(VALID, canary_buf=Content(patches=(patch,)))
    assert classify(patched) is Domain.HARDENED
    flip = CorruptStep(edits=(Flip(region="canary_buf", offset=9 * 32 + 15, mask=128),))
    flipped = replace(VALID, canary_buf=Content(fill=255), steps=(flip, *VALID.steps))
    assert classify(flipped) is Domain.HARDENED
    swap = CorruptStep(edits=(SwapSlots(first=9, second=8),))
    assert classify(replace(patched, steps=(swap, *VALID.steps))) is Domain.VALID
    without = replace(WRITE, enable_chain_position_assert=0)
    assert classify(replace(patched, steps=(without,))) is Domain.VALID


def test_the_last_position_may_be_the_greatest() -> None:
    case = with_step(0, positions=values(WRITE.positions, 1, 2, TOP))
    assert classify(case) is Domain.VALID


@pytest.mark.parametrize("case", [slots(3, -1, 3), seeds(-1, 1)])
def test_races_are_undefined(case: Case) -> None:
    check_case(case)
    assert classify(case) is Domain.UNDEFINED


@pytest.mark.parametrize("case", [slots(3, 3, 1), seeds(1, 3), seeds(9, 9), seeds(-1, 5)])
def test_what_one_request_does_to_its_own_slots_is_defined(case: Case) -> None:
    assert classify(case) is Domain.VALID


def test_faults_make_a_case_refused() -> None:
    fault = Fault(kind="dtype", tensor="input_ids")
    case = with_step(0, faults=(fault,))
    check_case(case)
    assert classify(case) is Domain.REFUSED
    racy = replace(case, steps=(*case.steps, slots(3, -1, 3).steps[0]))
    assert classify(racy) is Domain.UNDEFINED


def faulty(step: int, kind: str, tensor: str = "", amount: int = 0) -> Case:
    return with_step(step, faults=(Fault(kind=kind, tensor=tensor, amount=amount),))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "case",
    [
        faulty(0, "too_many_sources", amount=5),
        faulty(0, "not_contiguous", "plan.write_offsets"),
        faulty(2, "not_contiguous", "real_kv_sources[0].tensor"),
        faulty(2, "rank", "real_kv_sources[0].tensor", 3),
        faulty(0, "expected_unwanted", "expected_input_tokens"),
        faulty(2, "dtype", "plan.enable"),
        faulty(2, "shape", "plan.verify_slot_indices", -1),
        faulty(2, "device", "canary_buf"),
        faulty(0, "misaligned", "canary_buf", 4),
        faulty(0, "misaligned", "real_kv_sources[0].tensor", 8),
        faulty(0, "slot_stride", amount=24),
        faulty(0, "short_source", "real_kv_sources[0].tensor", 3),
        faulty(0, "hash_mode", amount=-1),
        faulty(0, "source_field", "real_kv_sources[0].page_size", 4),
        faulty(0, "source_field", "real_kv_sources[0].read_bytes", 48),
    ],
)
def test_faults_that_apply(case: Case) -> None:
    check_case(case)
    assert classify(case) is Domain.REFUSED


@pytest.mark.parametrize(
    "case",
    [
        faulty(0, "too_many_sources", amount=4),
        faulty(0, "too_many_sources", "canary_buf", 5),
        faulty(0, "not_contiguous", "violation_write_index"),
        faulty(2, "rank", "real_kv_sources[1].tensor", 3),
        faulty(2, "rank", "real_kv_sources[0].tensor", 2),
        faulty(0, "expected_missing", "expected_input_tokens"),
        faulty(2, "expected_unwanted", "expected_input_tokens"),
        faulty(2, "dtype", "input_ids"),
        faulty(2, "dtype", "plan.enable", 1),
        faulty(2, "shape", "canary_buf", 1),
        faulty(2, "shape", "plan.enable", 2),
        faulty(0, "misaligned", "input_ids", 4),
        faulty(0, "slot_stride", amount=40),
        faulty(0, "short_source", "real_kv_sources[0].tensor", 4),
        faulty(0, "hash_mode", amount=2),
        faulty(0, "source_field", "real_kv_sources[0].page_size", 2),
        faulty(0, "source_field", "real_kv_sources[0].rows", 0),
        with_step(0, faults=(Fault(kind="slot_stride", amount=24),
                             Fault(kind="dtype", tensor="canary_buf"))),
    ],
)  # fmt: skip
def test_faults_that_do_not_apply(case: Case) -> None:
    with pytest.raises(MalformedCase, match=r"^steps\[[02]\]\.faults\[[01]\]: "):
        check_case(case)


def with_source(**changes: object) -> Case:
    return replace(VALID, real_kv_sources=(replace(SOURCE, **changes),))


def with_edit(edit: Struct) -> Case:
    return with_step(1, edits=(edit,))


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (replace(VALID, num_slots=0), "num_slots: 0 is not in 1 .. 268435456"),
        (replace(VALID, slot_stride_bytes=36), "slot_stride_bytes: 36 is not a multiple of 8"),
        (replace(VALID, slot_stride_bytes=24), "slot_stride_bytes: 24 is not a multiple of 8"),
        (replace(VALID, num_slots=2**24), "real_kv_sources[0].rows: 4 rows do not cover"),
        (replace(VALID, num_slots=2**24, real_kv_sources=()), "case: takes 536871312 bytes of"),
        (replace(VALID, schedule=2**64), "schedule: "),
        (replace(VALID, launching="lazy"), "launching: 'lazy' is none of eager, "),
        (replace(VALID, shift=61), "shift: 61 is not in 0 .. 60"),
        (replace(VALID, ring_capacity=-1), "ring_capacity: -1 is not in 0"),
        (replace(VALID, violation_write_index=2**31), "violation_write_index: 2147483648 is not"),
        (replace(VALID, real_kv_hash_mode=3), "real_kv_hash_mode: 3 is not in 0 .. 2"),
        (replace(VALID, canary_buf=Content(patches=(Patch(offset=319, hex="0000"),))),
         "canary_buf.patches[0]: 2 bytes at 319 leave the region of 320"),
        (replace(VALID, canary_buf=Content(seed=2**64)), "canary_buf.seed: "),
        (with_source(read_bytes=24), "real_kv_sources[0].read_bytes: 24 is not 16 times some"),
        (with_source(read_bytes=48), "real_kv_sources[0].read_bytes: 48 is not in 16 .. 32"),
        (with_source(page_size=4), "real_kv_sources[0].row_bytes: 112 cannot hold a page of 128"),
        (with_source(rows=3), "real_kv_sources[0].rows: 3 rows do not cover num_slots"),
        (with_step(0, kernel_kind=12), "steps[0].kernel_kind: 12 is not in 0 .. 11"),
        (with_step(0, input_ids=Column(values=(1, 2), length=4)),
         "steps[0].input_ids: length 4 where 5 is needed"),
        (with_step(0, input_ids=Column(values=(1, 2, 3), length=5, tail=(1, 2, 3))),
         "steps[0].input_ids: 6 numbers in a length of 5"),
        (with_step(0, input_ids=Column(values=(TOP + 1,), length=5)),
         "steps[0].input_ids: a number is not an int64"),
        (with_step(0, write_offsets=Column(length=3)),
         "steps[0].write_offsets: length 3 where 4 is needed"),
        (with_step(0, expected_input_tokens=Column(length=5)),
         "steps[0].expected_input_tokens: is there if and only if the assert is on"),
        (with_step(0, enable_write_input_assert=True),
         "steps[0].expected_input_tokens: is there if and only if the assert is on"),
        (with_step(2, verify_expected_tokens=Column(length=2)),
         "steps[2].verify_expected_tokens: length 2 where 3 is needed"),
        (with_step(2, verify_num_valid=2**31), "steps[2].verify_num_valid: 2147483648 is not"),
        (with_edit(Flip(region="canary_buf", offset=320, mask=1)),
         "steps[1].edits[0].offset: 320 is not in 0 .. 319"),
        (with_edit(Flip(region="real_kv_sources[1].tensor", offset=0, mask=1)),
         "steps[1].edits[0].region: there is no real_kv_sources[1].tensor"),
        (with_edit(Flip(region="canary_buf", offset=0, mask=0)),
         "steps[1].edits[0].mask: 0 is not in 1 .. 255"),
        (with_edit(SwapSlots(first=0, second=10)),
         "steps[1].edits[0].second: 10 is not in 0 .. 9"),
        (replace(VALID, steps=(VERIFY,) * 65), "steps: 65 are more than 64"),
    ],
)  # fmt: skip
def test_malformed_cases_name_the_place(case: Case, message: str) -> None:
    with pytest.raises(MalformedCase) as error:
        check_case(case)
    assert str(error.value).startswith(message)


def test_a_huge_length_is_refused_before_memory_is_taken() -> None:
    case = with_step(2, **{name: Column(length=2**40) for name in (
        "verify_slot_indices", "verify_expected_tokens", "verify_expected_positions",
        "verify_prev_slot_indices")})  # fmt: skip
    with pytest.raises(MalformedCase, match=r"steps\[2\]\.verify_slot_indices\.length: "):
        check_case(case)


def test_two_wrong_lengths_could_fit_each_other() -> None:
    """A plan one request shorter in both vectors is a legal plan, so the pair is no case."""
    shape = {"kind": "shape", "amount": -1}
    step = {
        "step": "write",
        "write_offsets": {"length": 3},
        "write_seed_slot_indices": {"length": 2},
        "write_num_valid_reqs": 0,
        "input_ids": {},
        "positions": {},
        "out_cache_loc": {},
        "faults": [
            {**shape, "tensor": "plan.write_seed_slot_indices"},
            {**shape, "tensor": "plan.write_offsets"},
        ],
    }
    case = msgspec.convert({"num_slots": 1, "steps": [step]}, Case)
    with pytest.raises(MalformedCase, match="another fault is put upon the same thing"):
        check_case(case)
