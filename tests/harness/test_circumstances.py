"""Signatures where a target is given what it does not claim: the open inputs tell bugs apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace as with_fields
from typing import Any

import pytest
import torch
from msgspec.structs import replace

from kv_canary_fuzz.harness.execution.fuzzer import Fuzzer
from kv_canary_fuzz.harness.judging.plainest import plainest
from kv_canary_fuzz.harness.judging.verdict import judge
from kv_canary_fuzz.harness.targets.builtin import load_target
from kv_canary_fuzz.harness.targets.target import CLAIMABLE, Target
from kv_canary_fuzz.strategies.case import Case, Column, Fault, VerifyStep, WriteStep
from kv_canary_fuzz.strategies.circumstances import OTHER, circumstances, plainer
from kv_canary_fuzz.strategies.classify import Domain, classify
from kv_canary_fuzz.strategies.content import Patch
from kv_canary_fuzz.strategies.values import INT32_MAX, INT64_MAX


def column(*values: int) -> Column:
    return Column(values=values, length=len(values))


def write(**changes: Any) -> WriteStep:
    step = WriteStep(
        write_offsets=column(0, 1, 2),
        write_seed_slot_indices=column(-1, -1),
        write_num_valid_reqs=2,
        input_ids=column(7, 8),
        positions=column(0, 1),
        out_cache_loc=column(1, 2),
    )
    return replace(step, **changes)


def verify(**changes: Any) -> VerifyStep:
    step = VerifyStep(
        verify_slot_indices=column(1, 2),
        verify_expected_tokens=column(7, 8),
        verify_expected_positions=column(0, 1),
        verify_prev_slot_indices=column(-1, -1),
        verify_num_valid=2,
    )
    return replace(step, **changes)


def case(*steps: Any, **changes: Any) -> Case:
    return replace(Case(num_slots=4, ring_capacity=8, steps=steps), **changes)


@pytest.mark.parametrize(
    ("made", "names"),
    [
        (case(write(), verify()), ()),
        (case(write(write_num_valid_reqs=-1)), ("requests negative",)),
        (case(write(write_num_valid_reqs=3)), ("requests beyond",)),
        (case(write(write_offsets=column(0, 3, -1))), ("offsets descending",)),
        (case(write(write_offsets=column(-1, 3, 4))), ("offsets beyond",)),
        (case(write(write_offsets=column(-1, 1, 2))), ("offsets negative",)),
        (case(write(out_cache_loc=column(1, 4))), ("write slot_beyond",)),
        (case(write(out_cache_loc=column(4, 2), write_offsets=column(1, 1, 2))),
         ("write slot_beyond",)),
        (case(write(out_cache_loc=column(1, 4), write_offsets=column(0, 2, 1))),
         ("offsets descending", "write slot_beyond")),
        (case(write(out_cache_loc=column(1, 4), write_offsets=column(2, 1, 0))),
         ("offsets descending",)),
        (case(verify(verify_slot_indices=column(-2, 5))),
         ("verify slot_beyond", "verify slot_negative")),
        (case(verify(verify_num_valid=-4)), ("entries negative",)),
        (case(write(), violation_write_index=-3), ("state index_negative",)),
        (case(write(), violation_write_index=INT32_MAX), ("state index_wraps",)),
        (case(write(faults=(Fault(kind="hash_mode", amount=3),))), ("fault hash_mode",)),
        (case(write(positions=column(INT64_MAX, 5), write_seed_slot_indices=column(3, -1),
                    enable_chain_position_assert=1, write_offsets=column(0, 2, 2))),
         ("write last_position",)),
    ],
)  # fmt: skip
def test_circumstances_by_name(made: Case, names: tuple[str, ...]) -> None:
    assert circumstances(made, len(made.steps) - 1) == names
    assert (classify(made) is Domain.VALID) == (not names)


def test_later_steps_are_not_circumstances() -> None:
    made = case(write(), verify(verify_num_valid=-4))
    assert circumstances(made, 0) == ()


def test_a_case_that_is_open_in_a_way_without_a_name() -> None:
    """The position that wraps stands in the buffer, and is not written by the launch."""
    made = case(
        write(write_seed_slot_indices=column(3, -1), enable_chain_position_assert=1),
        canary_buf=Case(num_slots=1).canary_buf,
    )
    patched = replace(
        made,
        canary_buf=replace(
            made.canary_buf,
            patches=(_patch(3 * 32 + 8, INT64_MAX),),
        ),
    )
    assert classify(patched) is Domain.HARDENED
    assert circumstances(patched, 0) == (OTHER,)


def _patch(offset: int, number: int) -> Patch:
    return Patch(offset=offset, hex=number.to_bytes(8, "little").hex())


def test_plainer_cases_lose_one_thing_each() -> None:
    made = case(write(write_num_valid_reqs=3, out_cache_loc=column(1, 9)), violation_write_index=-1)
    found = {circumstances(candidate, 0) for candidate in plainer(made)}
    assert found >= {
        ("requests beyond", "state index_negative"),
        ("requests beyond",),
        ("state index_negative", "write slot_beyond"),
    }


def careless(after: Callable[[Any], None], domains: frozenset[Domain]) -> Target:
    """The scalar model, with something done after a write whose count is negative."""
    model = load_target("scalar")

    def stamp(**arguments: Any) -> None:
        model.write(**arguments)
        if int(arguments["plan"].write_num_valid_reqs) < 0:
            after(arguments["context"])

    return with_fields(model, name="careless", write=stamp, domains=domains)


BUSY = case(
    write(),
    write(write_num_valid_reqs=-1, out_cache_loc=column(1, 9)),
    verify(verify_prev_slot_indices=column(-1, 7)),
    violation_write_index=-1,
)


def test_a_signature_names_the_circumstances_where_they_are_not_claimed() -> None:
    def count(context: Any) -> None:
        context.slot_run_counter.add_(1)

    claiming = judge(BUSY, careless(count, CLAIMABLE))
    assert (claiming.signature, claiming.circumstances) == ("write: slot_run_counter", ())
    target = careless(count, frozenset({Domain.VALID}))
    verdict = judge(BUSY, target)
    assert verdict.signature == (
        "write: slot_run_counter, where requests negative and state index_negative"
    )
    assert verdict.kind == "write: slot_run_counter"
    plain, seen = plainest(BUSY, verdict, target, None)
    assert seen.signature == "write: slot_run_counter, where requests negative"
    assert len(plain.steps) == 2
    assert plain.violation_write_index == 0


def test_of_stamps_and_rows_the_region_alone_counts() -> None:
    def scribble(context: Any) -> None:
        context.canary_buf.fill_(3)

    target = careless(scribble, frozenset({Domain.VALID}))
    plain, verdict = plainest(BUSY, judge(BUSY, target), target, None)
    assert verdict.signature == "write: canary_buf, where requests negative"
    assert plainest(plain, verdict, target, None) == (plain, verdict)


def test_a_bug_of_the_valid_domain_is_called_the_same_in_a_hardened_case() -> None:
    model = load_target("scalar")

    def stamp(**arguments: Any) -> None:
        model.write(**arguments)
        arguments["context"].kernel_run_counter.add_(1)

    target = with_fields(model, write=stamp, domains=frozenset({Domain.VALID}))
    _, verdict = plainest(BUSY, judge(BUSY, target), target, None)
    assert verdict.signature == "write: kernel_run_counter"


def test_every_hardened_case_has_circumstances() -> None:
    torch.set_num_threads(1)
    for made in Fuzzer(load_target("scalar")).generate(3, range(400), "hardened"):
        assert circumstances(made, len(made.steps) - 1)
