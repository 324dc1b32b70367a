"""A planted single-field bug shrinks to one form, whichever campaign found it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from msgspec.structs import replace

from kv_canary_fuzz.harness.findings.reproducer import Reproducer, encode_reproducer
from kv_canary_fuzz.harness.findings.shrinker import shrink
from kv_canary_fuzz.harness.judging.verdict import judge
from kv_canary_fuzz.harness.targets.target import Target
from kv_canary_fuzz.strategies.case import Case, Column, Source, VerifyStep, WriteStep
from kv_canary_fuzz.strategies.content import Content, Patch

Plant = Callable[[str, str], Target]
Find = Callable[[Target, int, str], Case]

ONE = Column(length=1)
ONES = Column(values=(1,), length=1)
WRITE = WriteStep(
    write_offsets=Column(values=(0, 1), length=2),
    write_seed_slot_indices=Column(values=(-1,), length=1),
    write_num_valid_reqs=1,
    input_ids=ONE,
    positions=ONE,
    out_cache_loc=ONE,
)
VERIFY = VerifyStep(
    verify_slot_indices=ONES,
    verify_expected_tokens=ONE,
    verify_expected_positions=ONE,
    verify_prev_slot_indices=ONE,
    verify_num_valid=1,
)
STAMP = "Slot(token, position, running, _real_kv_hash(context, slot))"
SOURCE = Source(rows=2, row_bytes=32, page_size=1, num_bytes_per_token=16, read_bytes=16)

BUGS = {
    "prev_hash": (
        (STAMP, STAMP.replace("running", "running ^ 1")),
        "write: canary_buf.prev_hash",
        Case(num_slots=1, steps=(WRITE,)),
    ),
    "token in 32 bits": (
        (STAMP, STAMP.replace("token", "(token + 2**31) % 2**32 - 2**31")),
        "write: canary_buf.token",
        Case(num_slots=1, steps=(replace(WRITE, input_ids=Column(values=(2**31,), length=1)),)),
    ),
    "chain without positions": (
        (
            "running = mix3(running, token, position)",
            "running = mix3(running, token, 0)",
        ),
        "write: canary_buf.prev_hash",
        Case(
            num_slots=1,
            steps=(
                replace(
                    WRITE,
                    write_offsets=Column(values=(0, 2), length=2),
                    input_ids=Column(length=2),
                    positions=Column(values=(1,), length=2),
                    out_cache_loc=Column(length=2),
                ),
            ),
        ),
    ),
    "seed token in 32 bits": (
        (
            "_HEAD if head is None else head.link()",
            "_HEAD if head is None else head._replace(token=head.token & 2**32 - 1).link()",
        ),
        "write: canary_buf.prev_hash",
        Case(
            num_slots=1,
            canary_buf=Content(patches=(Patch(offset=0, hex="ff" * 8),)),
            steps=(replace(WRITE, write_seed_slot_indices=ONE),),
        ),
    ),
    "wrong chain expected": (
        ("stored.prev_hash, chain, bits)", "stored.prev_hash, stored.prev_hash, bits)"),
        "verify: violation_ring.expected_aux",
        Case(
            num_slots=2,
            ring_capacity=1,
            steps=(replace(VERIFY, verify_prev_slot_indices=Column(values=(-1,), length=1)),),
        ),
    ),
    "row step from the width": (
        (
            "source.tensor[row].view(torch.uint8)[start : start + length]",
            "source.tensor.flatten()[slot * source.num_bytes_per_token :][:length]",
        ),
        "write: canary_buf.real_kv_hash",
        Case(
            num_slots=2,
            real_kv_sources=(
                replace(SOURCE, content=Content(patches=(Patch(16, "01" + "00" * 7),))),
            ),
            real_kv_hash_mode=1,
            steps=(replace(WRITE, out_cache_loc=ONES),),
        ),
    ),
}


@pytest.mark.parametrize("name", BUGS)
def test_one_form_from_many_campaigns(name: str, planted: Plant, first_failing: Find) -> None:
    (old, new), signature, least = BUGS[name]
    target = planted(old, new)

    def fails(case: Case) -> bool:
        return judge(case, target).signature == signature

    campaigns = 20 if name in ("prev_hash", "token in 32 bits") else 5
    starts = map(partial(first_failing, target, signature=signature), range(campaigns))
    assert {shrink(start, fails, budget_seconds=1000).case for start in starts} == {least}
    reproducer = Reproducer(case=least, signature=signature, target="planted", reference="torch")
    assert len(encode_reproducer(reproducer)) <= 1024


def test_shrinking_the_result_changes_nothing(planted: Plant, first_failing: Find) -> None:
    (old, new), signature, least = BUGS["token in 32 bits"]
    target = planted(old, new)
    start = first_failing(target, 7, signature)

    def fails(case: Case) -> bool:
        return judge(case, target).signature == signature

    once = shrink(start, fails, budget_seconds=1000)
    again = shrink(once.case, fails, budget_seconds=1000)
    assert (again.case, again.steps, again.fixed_point) == (least, 0, True)
    assert once.tries <= 400
