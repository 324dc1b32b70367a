"""What launches must report, on cases made by hand: every expected row is written out."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kv_canary_fuzz.strategies.case import (
    Case,
    Column,
    CorruptStep,
    Edit,
    Fault,
    Flip,
    Source,
    SwapSlots,
    VerifyStep,
    WriteStep,
)
from kv_canary_fuzz.strategies.classify import Domain, check_case, classify
from kv_canary_fuzz.strategies.content import Content, Patch
from kv_canary_fuzz.strategies.knowledge.expected import expected_bits

TOKENS, POSITIONS, SLOTS = (11, 12, 13), (40, 41, 42), (3, 5, 7)
SOURCE = Source(
    rows=4, row_bytes=112, page_size=3, num_bytes_per_token=32, read_bytes=16,
    content=Content(seed=2),
)  # fmt: skip


def column(*values: int) -> Column:
    return Column(values=values, length=len(values))


def write(
    slots: tuple[int, ...] = SLOTS,
    tokens: tuple[int, ...] = TOKENS,
    positions: tuple[int, ...] = POSITIONS,
    seed: int = -1,
    assert_chain: int = 0,
    expected: tuple[tuple[int, ...], tuple[int, ...]] | None = None,
) -> WriteStep:
    return WriteStep(
        write_offsets=column(0, len(slots)),
        write_seed_slot_indices=column(seed),
        write_num_valid_reqs=1,
        input_ids=column(*tokens),
        positions=column(*positions),
        out_cache_loc=column(*slots),
        expected_input_tokens=column(*expected[0]) if expected else None,
        expected_input_positions=column(*expected[1]) if expected else None,
        enable_write_input_assert=expected is not None,
        enable_chain_position_assert=assert_chain,
    )


def verify(
    slots: tuple[int, ...] = SLOTS,
    tokens: tuple[int, ...] = TOKENS,
    positions: tuple[int, ...] = POSITIONS,
    previous: tuple[int, ...] = (-1, 3, 5),
    check: bool = True,
    enable: int = 1,
) -> VerifyStep:
    return VerifyStep(
        verify_slot_indices=column(*slots),
        verify_expected_tokens=column(*tokens),
        verify_expected_positions=column(*positions),
        verify_prev_slot_indices=column(*previous),
        verify_num_valid=len(slots),
        enable=enable,
        check_verify_expected_token=check,
    )


def case(*steps: WriteStep | VerifyStep | CorruptStep, **state: object) -> Case:
    base = Case(num_slots=10, canary_buf=Content(seed=1), steps=steps)
    made = replace(base, **state)
    check_case(made)
    return made


def corrupted(*edits: Edit, plan: VerifyStep | None = None, **state: object) -> object:
    """The rows of a verify launch after a clean chain of three took the edits."""
    plan = plan or verify()
    return expected_bits(case(write(), CorruptStep(edits=edits), plan, **state))[2]


def field_flip(slot: int, field: int, bit: int = 0) -> Flip:
    return Flip(region="canary_buf", offset=slot * 32 + field * 8 + bit // 8, mask=1 << bit % 8)


def kv_flip(offset: int) -> Flip:
    return Flip(region="real_kv_sources[0].tensor", offset=offset, mask=16)


def test_a_clean_chain_has_no_rows() -> None:
    assert expected_bits(case(write(), verify())) == ((), ())


@pytest.mark.parametrize(
    ("field", "bit", "rows"),
    [
        (0, 0, ((5, 41, 32), (7, 42, 1))),
        (0, 63, ((5, 41, 32), (7, 42, 1))),
        (1, 0, ((5, 40, 2), (7, 42, 1))),
        (1, 40, ((5, 41 + 2**40, 2), (7, 42, 1))),
        (2, 0, ((5, 41, 1), (7, 42, 1))),
        (2, 63, ((5, 41, 1), (7, 42, 1))),
        (3, 7, ((5, 41, 4),)),
    ],
)
def test_a_bit_in_a_field_of_the_middle_slot(
    field: int, bit: int, rows: tuple[tuple[int, int, int], ...]
) -> None:
    assert corrupted(field_flip(5, field, bit)) == rows


def test_a_flipped_token_is_seen_through_the_chain_where_tokens_are_not_checked() -> None:
    assert corrupted(field_flip(5, 0), plan=verify(check=False)) == ((7, 42, 1),)


def test_flips_that_cancel_cause_nothing() -> None:
    for field in range(4):
        assert corrupted(field_flip(5, field), field_flip(5, field)) == ()
    assert corrupted(kv_flip(112 + 64), kv_flip(112 + 64), real_kv_sources=(SOURCE,),
                     real_kv_hash_mode=2) == ()  # fmt: skip


def test_stride_padding_belongs_to_nobody() -> None:
    flip = Flip(region="canary_buf", offset=5 * 48 + 32, mask=1)
    assert corrupted(flip, slot_stride_bytes=48) == ()


@pytest.mark.parametrize(
    ("mode", "read_bytes", "byte", "seen"),
    [
        (0, 32, 0, False),
        (1, 32, 0, True),
        (1, 32, 15, True),
        (1, 32, 16, False),
        (2, 32, 16, True),
        (2, 32, 31, True),
        (2, 16, 15, True),
        (2, 16, 16, False),
    ],
)
def test_only_folded_kv_bytes_count(mode: int, read_bytes: int, byte: int, seen: bool) -> None:
    """Slot 5 lies in row 1 at column 64."""
    source = replace(SOURCE, read_bytes=read_bytes)
    rows = corrupted(kv_flip(112 + 64 + byte), real_kv_sources=(source,), real_kv_hash_mode=mode)
    assert rows == (((5, 41, 4),) if seen else ())


def test_row_padding_is_not_folded() -> None:
    rows = corrupted(kv_flip(112 + 96), real_kv_sources=(SOURCE,), real_kv_hash_mode=2)
    assert rows == ()


def test_a_byte_inside_and_then_one_outside_the_folded_range() -> None:
    inside, outside = kv_flip(112 + 64 + 3), kv_flip(112 + 64 + 16)
    made = case(
        write(),
        verify(),
        CorruptStep(edits=(inside,)),
        verify(),
        CorruptStep(edits=(inside, outside)),
        verify(),
        real_kv_sources=(SOURCE,),
        real_kv_hash_mode=2,
    )
    assert expected_bits(made) == ((), (), (), ((5, 41, 4),), (), ())


def test_swapped_slots() -> None:
    """Slots 3 and 5 exchange all four fields; without sources the real-KV hashes are alike."""
    swap = SwapSlots(first=3, second=5)
    assert corrupted(swap) == ((3, 41, 35), (5, 40, 35), (7, 42, 1))
    hashed = corrupted(swap, real_kv_sources=(SOURCE,), real_kv_hash_mode=1)
    assert hashed == ((3, 41, 39), (5, 40, 39), (7, 42, 1))
    alike = replace(SOURCE, content=Content(fill=7))
    assert corrupted(swap, real_kv_sources=(alike,), real_kv_hash_mode=1) == corrupted(swap)


@pytest.mark.parametrize(
    ("plan", "rows"),
    [
        (verify(tokens=(11, 99, 13)), ((5, 41, 32),)),
        (verify(tokens=(11, -1, 13)), ()),
        (verify(tokens=(11, 99, 13), check=False), ()),
        (verify(positions=(40, 41, 43)), ((7, 42, 2),)),
        (verify(previous=(-1, 5, 3)), ((5, 41, 1), (7, 42, 1))),
        (verify(previous=(-1, -1, 5)), ((5, 41, 1),)),
        (verify(previous=(-7, 3, 5)), ()),
        (verify(previous=(3, 0, 0)), ((3, 40, 1),)),
        (
            verify(
                slots=(7, 5, 3), tokens=(13, 12, 11), positions=(42, 41, 40), previous=(5, 3, -1)
            ),
            (),
        ),
        (verify(slots=(0, 5, 0)), ()),
        (verify(slots=(7, 7, 7), previous=(5, 5, 5)), ((7, 42, 34), (7, 42, 34))),
        (verify(tokens=(0, 0, 0), enable=0), ()),
        (verify(tokens=(0, 12, 13), enable=-(2**31)), ((3, 40, 32),)),
    ],
)
def test_a_plan_that_differs(plan: VerifyStep, rows: tuple[tuple[int, int, int], ...]) -> None:
    assert corrupted(plan=plan) == rows


def test_a_predecessor_that_is_padding_is_not_checked() -> None:
    """Slot 0 holds junk; the entry names it as its predecessor."""
    plan = verify(slots=(5,), tokens=(12,), positions=(41,), previous=(0,))
    assert expected_bits(case(write(), plan))[1] == ()


def test_a_negative_slot_is_skipped_altogether() -> None:
    made = case(
        write(slots=(-1, 3, -1), assert_chain=1, seed=2, positions=(0, 40, 0)),
        verify(slots=(3,), tokens=(12,), positions=(40,), previous=(2,)),
        canary_buf=Content(fill=0),
    )
    assert expected_bits(made) == (((3, 40, 16),), ())


def test_a_sliding_window_tail() -> None:
    """The seed's position is 8447, the only entry's 512: exactly one row."""
    made = case(
        write(slots=(4,), tokens=(9,), positions=(8447,)),
        write(slots=(6,), tokens=(10,), positions=(512,), seed=4, assert_chain=1),
        write(slots=(8,), tokens=(10,), positions=(8448,), seed=4, assert_chain=1),
    )
    assert expected_bits(made) == ((), ((6, 512, 16),), ())


def test_input_asserts() -> None:
    step = write(expected=((11, 0, 13), (40, 41, -1)))
    assert expected_bits(case(step)) == (((5, 41, 8), (7, 42, 16)),)
    step = write(expected=((11, 12, 0), (40, 41, 0)))
    assert expected_bits(case(step)) == (((7, 42, 24),),)
    step = write(slots=(3, -1, 7), expected=((11, 0, 13), (40, 0, 42)))
    assert expected_bits(case(step)) == ((),)


def test_an_entry_that_fails_both_checks_has_two_rows() -> None:
    step = write(seed=3, assert_chain=2, positions=(0, 1, 3), expected=((11, 12, 0), (0, 1, 2)))
    made = case(step, canary_buf=Content(fill=255))
    assert expected_bits(made) == (((7, 3, 16), (7, 3, 24)),)


def test_a_seed_that_its_own_request_rewrites_is_read_before() -> None:
    made = case(
        write(slots=(3,), tokens=(1,), positions=(6,)),
        write(slots=(3, 5), tokens=(2, 3), positions=(7, 8), seed=3, assert_chain=1),
        verify(slots=(5,), tokens=(3,), positions=(8,), previous=(3,)),
        verify(slots=(3,), tokens=(2,), positions=(7,), previous=(3,)),
    )
    assert expected_bits(made) == ((), (), (), ((3, 7, 1),))


def test_of_two_entries_for_one_slot_the_last_stays() -> None:
    made = case(write(slots=(3, 5, 3)), verify(slots=(3, 5), tokens=(13, 12), positions=(42, 41),
                                               previous=(5, 3)))  # fmt: skip
    assert expected_bits(made) == ((), ((5, 41, 1),))


def test_what_was_never_stamped_fails_unless_it_is_all_zero() -> None:
    plan = verify(slots=(4,), tokens=(0,), positions=(0,), previous=(6,))
    assert expected_bits(case(plan, canary_buf=Content(fill=0))) == ((),)
    assert expected_bits(case(plan, canary_buf=Content(fill=255))) == (((4, -1, 39),),)
    head = replace(plan, verify_prev_slot_indices=column(-1))
    assert expected_bits(case(head, canary_buf=Content(fill=0))) == (((4, 0, 1),),)


def test_zero_bytes_fold_to_zero() -> None:
    zero = replace(SOURCE, content=Content(fill=0))
    plan = verify(slots=(4,), tokens=(0,), positions=(0,), previous=(0,))
    state = {"canary_buf": Content(fill=0), "real_kv_sources": (zero,), "real_kv_hash_mode": 2}
    assert expected_bits(case(plan, **state)) == ((),)
    flip = CorruptStep(edits=(kv_flip(112 + 32),))
    assert expected_bits(case(flip, plan, **state))[1] == ((4, 0, 4),)


def test_patched_hashes_are_not_judged() -> None:
    patch = Patch(offset=4 * 32 + 16, hex="11" * 16)
    plan = verify(slots=(4,), tokens=(0,), positions=(0,), previous=(-1,))
    made = case(plan, canary_buf=Content(fill=0, patches=(patch,)))
    assert expected_bits(made) == (None,)


def test_patched_sources_are_compared_by_their_bytes() -> None:
    """A patch makes slot 5's bytes equal to slot 3's, so their hashes are alike when swapped."""
    source = replace(SOURCE, content=Content(fill=1, patches=(Patch(offset=112, hex="02"),)))
    swap = SwapSlots(first=3, second=5)
    rows = corrupted(swap, real_kv_sources=(source,), real_kv_hash_mode=2)
    assert rows == ((3, 41, 39), (5, 40, 39), (7, 42, 1))
    twice = Content(fill=1, patches=(Patch(offset=112, hex="02"), Patch(offset=176, hex="02")))
    source = replace(SOURCE, content=twice)
    assert corrupted(swap, real_kv_sources=(source,), real_kv_hash_mode=2) == corrupted(swap)


def test_a_refused_launch_changes_nothing() -> None:
    refused = replace(write(tokens=(0, 0, 0)), faults=(Fault(kind="hash_mode", amount=3),))
    assert expected_bits(case(write(), refused, verify())) == ((), (), ())


def test_out_of_range_numbers_are_clamped() -> None:
    wild_write = replace(write(slots=(3, 99, 7), seed=99), write_num_valid_reqs=2**31 - 1)
    wild_write = replace(wild_write, write_offsets=column(-5, 2**62))
    plan = verify(slots=(3, -1, 99, 7), tokens=(11, 0, 0, 13), positions=(40, 0, 0, 42),
                  previous=(-1, 0, 0, 3))  # fmt: skip
    plan = replace(plan, verify_num_valid=5)
    made = case(wild_write, plan)
    assert classify(made) is Domain.HARDENED
    assert expected_bits(made) == ((), ())


def test_positions_wrap() -> None:
    top = 2**63 - 1
    made = case(
        write(slots=(1,), tokens=(0,), positions=(top,)),
        write(slots=(2,), tokens=(0,), positions=(-(2**63),), seed=1, assert_chain=1),
    )
    assert classify(made) is Domain.HARDENED
    assert expected_bits(made) == ((), ())


def test_undefined_cases_are_not_judged() -> None:
    racy = replace(
        write(),
        write_offsets=column(0, 1, 3),
        write_seed_slot_indices=column(-1, 3),
        write_num_valid_reqs=2,
    )
    made = case(racy, verify())
    assert classify(made) is Domain.UNDEFINED
    assert expected_bits(made) == (None, None)
