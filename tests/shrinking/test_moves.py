"""The moves that passes are made of keep what they promise to keep."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from kv_canary_fuzz.harness.execution.arena import allocate, fill, lay_out_batch
from kv_canary_fuzz.harness.execution.layout import lay_out
from kv_canary_fuzz.harness.judging.verdict import Side
from kv_canary_fuzz.strategies.case import (
    Case,
    Column,
    CorruptStep,
    Flip,
    SwapSlots,
    VerifyStep,
    WriteStep,
)
from kv_canary_fuzz.strategies.columns import expand
from kv_canary_fuzz.strategies.content import Content, Patch
from kv_canary_fuzz.strategies.prng import case_at
from kv_canary_fuzz.strategies.simplify.cuts import canonical_column, cut, cut_requests, cut_sources
from kv_canary_fuzz.strategies.simplify.history import absorbed
from kv_canary_fuzz.strategies.simplify.order import complexity
from kv_canary_fuzz.strategies.simplify.problem import descend, least, remove, spans_of
from kv_canary_fuzz.strategies.simplify.relabel import forget_slots, relabel
from kv_canary_fuzz.strategies.simplify.sites import put_in_column
from kv_canary_fuzz.strategies.simplify.trades import put_place, read_place
from kv_canary_fuzz.strategies.simplify.words import patched_words, read_words, with_words


def random_column(rng: random.Random) -> Column:
    length = rng.choice([0, 1, 5, 63, 64, 65, 100, 200, 300])
    ahead = rng.randint(0, length)
    behind = rng.randint(0, length - ahead)
    return Column(
        values=tuple(rng.choice([0, 7, 1]) if rng.random() < 0.3 else 7 for _ in range(ahead)),
        length=length,
        fill=rng.choice([0, 7]),
        tail=tuple(rng.choice([0, 7]) for _ in range(behind)),
    )


def test_canonical_columns_hold_the_same_numbers() -> None:
    rng = random.Random(1)
    for _ in range(2000):
        column = random_column(rng)
        canonical = canonical_column(column)
        assert (expand(canonical), canonical.length) == (expand(column), column.length)
        assert canonical_column(canonical) == canonical


def test_equal_short_columns_have_one_form() -> None:
    forms = (
        Column(values=(0, 4, 0), length=3),
        Column(length=3, tail=(0, 4, 0)),
        Column(values=(0,), length=3, fill=4, tail=(0,)),
    )
    assert {canonical_column(form) for form in forms} == {Column(values=(0, 4), length=3)}


def test_cut_is_deletion() -> None:
    rng = random.Random(2)
    for _ in range(1000):
        column = random_column(rng)
        start = rng.randint(0, column.length)
        stop = rng.randint(start, column.length)
        numbers = expand(column)
        assert expand(cut(column, [(start, stop)])) == numbers[:start] + numbers[stop:]


@pytest.mark.parametrize("length", [0, 1, 64, 65, 300])
def test_spans_cover_everything_once(length: int) -> None:
    for ahead, behind in ((0, 0), (3, 2), (length + 1, 0), (0, length + 1)):
        spans = spans_of(length, ahead, behind)
        assert [i for start, stop in spans for i in range(start, stop)] == list(range(length))


def test_a_run_of_deletions_costs_a_logarithm() -> None:
    tries = []

    def attempt(gone: list[tuple[int, int]]) -> bool:
        tries.append(gone)
        return (23, 24) not in gone

    remove([(k, k + 1) for k in range(100)], attempt)
    assert len(tries) <= 2 * 7 + 2
    assert len(max((gone for gone in tries if (23, 24) not in gone), key=len)) == 99


@pytest.mark.parametrize(
    "threshold", [0, 1, 2, 3, 100, 255, 256, 10**9, 2**31, 2**32 + 1, 2**62 + 5]
)
def test_descend_finds_a_threshold(threshold: int) -> None:
    for start in (2**63 - 1, 2**62 + 5, threshold):
        found = [start]
        descend(start, lambda n, f=found: n >= threshold and not f.append(n))
        assert found[-1] == min(start, threshold) or start < threshold


@pytest.mark.parametrize("threshold", [0, 1, 5, 31, 193, 513])
def test_least_finds_a_threshold(threshold: int) -> None:
    found = [600]
    least(0, 600, lambda n: n >= threshold and not found.append(n))
    assert found[-1] == threshold


def test_words_keep_the_bytes_of_patches() -> None:
    content = Content(seed=3, patches=(Patch(offset=3, hex="aabb"), Patch(offset=4, hex="cc")))
    raw = read_words(replace(content, patches=()), range(2))
    first = bytearray(raw[0].to_bytes(8, "little", signed=True))
    first[3:5] = b"\xaa\xcc"
    merged = with_words(content, patched_words(content))
    assert merged.patches == (Patch(offset=0, hex=first.hex()),)
    assert read_words(merged, range(2)) == {
        0: int.from_bytes(first, "little", signed=True),
        1: raw[1],
    }


def test_absorbed_history_leaves_the_bytes_that_it_wrote() -> None:
    absorbed_cases = 0
    for index in range(200):
        case = case_at(11, index)
        for count in range(1, len(case.steps)):
            if lay_out(case).size < 100_000:
                _assert_absorbed(case, count)
                absorbed_cases += 1
    assert absorbed_cases >= 50


def _assert_absorbed(case: Case, count: int) -> None:
    side = Side(case, None)
    for number in range(count):
        side.advance(number)
    after = side.bytes()
    later = absorbed(case, count)
    batch = lay_out_batch([later])
    before = allocate(batch.size)
    fill(batch, before)
    old, new = lay_out(case).regions, batch.layouts[0].regions
    sources = [name for name in new if name.startswith("real_kv_sources")]
    for name in ("canary_buf", *sources):
        there, here = after[old[name].offset : old[name].end], before[new[name].offset :]
        assert bytes(there) == bytes(here[: len(there)]), name


def test_relabelled_slots_keep_their_bytes(forty_entries: Case) -> None:
    words = with_words(Content(), {8 * 4 + 1: 5, 8 * 6: 9})
    case = relabel(replace(forty_entries, canary_buf=words), {4: 1, 6: 2, 20: 3}, 4)
    assert case.canary_buf == with_words(Content(), {8 * 1 + 1: 5, 8 * 2: 9})
    assert [source.rows for source in case.real_kv_sources] == [1, 4]
    corrupt = case.steps[1]
    assert isinstance(corrupt, CorruptStep)
    assert corrupt.edits == (
        Flip(region="real_kv_sources[1].tensor", offset=144, mask=64),
        SwapSlots(first=2, second=3),
    )


def test_forgotten_slots_close_the_chain(forty_entries: Case) -> None:
    verify = forget_slots(forty_entries, {4, 6}).steps[2]
    assert isinstance(verify, VerifyStep)
    assert expand(verify.verify_slot_indices)[:3] == (2, 8, 10)
    assert expand(verify.verify_prev_slot_indices)[:3] == (-1, 2, 8)
    assert verify.verify_num_valid == 38


def test_requests_go_with_their_entries(forty_entries: Case) -> None:
    write = forty_entries.steps[0]
    assert isinstance(write, WriteStep)
    shorter = cut_requests(write, [(1, 3)])
    assert expand(shorter.write_offsets) == (0, 10, 20, 20, 20, 20)
    assert shorter.write_num_valid_reqs == 2
    assert expand(shorter.out_cache_loc)[8:12] == (18, 20, 62, 64)
    assert shorter.input_ids.length == shorter.positions.length == 28


def test_edits_and_faults_follow_their_source(forty_entries: Case) -> None:
    case = cut_sources(forty_entries, [(0, 1)])
    corrupt = case.steps[1]
    assert isinstance(corrupt, CorruptStep)
    assert corrupt.edits[0] == Flip(region="real_kv_sources[0].tensor", offset=400, mask=64)
    gone = cut_sources(forty_entries, [(1, 2)]).steps[1]
    assert isinstance(gone, CorruptStep)
    assert len(gone.edits) == 1


def test_order_is_total_and_prefers_plain() -> None:
    plain = Case(num_slots=1)
    harder = (
        replace(plain, kernel_run_counter=1),
        replace(plain, kernel_run_counter=-1),
        replace(plain, schedule=1),
        replace(plain, canary_buf=Content(fill=1)),
        replace(plain, canary_buf=Content(seed=0)),
        replace(plain, ring_capacity=1),
        replace(plain, num_slots=2),
        replace(plain, real_kv_hash_mode=1),
        replace(plain, steps=(CorruptStep(),)),
    )
    keys = [complexity(case) for case in (plain, *harder)]
    assert keys == sorted(keys)
    assert len(set(map(repr, keys))) == len(keys)


@pytest.mark.parametrize("seed", range(200))
def test_numbers_are_put_anywhere_in_a_column(seed: int) -> None:
    rng = random.Random(seed)
    column = random_column(rng)
    numbers = {rng.randrange(column.length): 9 + k for k in range(3) if column.length}
    wanted = [numbers.get(index, number) for index, number in enumerate(expand(column))]
    put = put_in_column(column, numbers)
    assert list(expand(put)) == wanted
    assert put.length == column.length
    assert len(put.values) + len(put.tail) <= column.length


def test_a_word_takes_a_number_past_63_bits() -> None:
    case = replace(Case(num_slots=2), schedule=2**64 - 3)
    moved = put_place(case, ("canary_buf", 1), case.schedule)
    assert read_place(moved, ("canary_buf", 1)) == -3
    assert put_place(moved, ("canary_buf", 1), 0) == case


def test_only_equal_cases_tie() -> None:
    cases = [case_at(4, index) for index in range(100)]
    keys = {repr(complexity(case)) for case in cases}
    assert len(keys) == len(set(cases))
