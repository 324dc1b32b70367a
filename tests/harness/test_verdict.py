"""Where two implementations part, and what it is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from msgspec.structs import replace

from kv_canary_fuzz.harness.execution import execution
from kv_canary_fuzz.harness.execution.fuzzer import Fuzzer
from kv_canary_fuzz.harness.explaining.explain import explain
from kv_canary_fuzz.harness.judging.verdict import judge
from kv_canary_fuzz.harness.targets.target import Target
from kv_canary_fuzz.reference.batch import run_verify_batch
from kv_canary_fuzz.strategies.case import Case, Fault, Flip
from kv_canary_fuzz.strategies.prng import case_at

BuildCase = Callable[..., Case]
BuildTarget = Callable[..., Target]


def words(context: Any) -> torch.Tensor:
    return context.canary_buf.view(torch.int64)


def wrong_prev_hash(context: Any) -> None:
    words(context)[2:, 2] += 1


def wrong_token_and_hash(context: Any) -> None:
    words(context)[3, 0] = 1
    words(context)[2, 2] = 1


def miscount(context: Any) -> None:
    context.slot_run_counter.add_(1)


def change_a_source(context: Any) -> None:
    context.real_kv_sources[0].tensor[0, 31] ^= 1


def drop_the_row(context: Any) -> None:
    context.violation_ring[0] = 0


def lose_a_bit(context: Any) -> None:
    context.violation_ring[0, 7] &= ~4


def touch_the_next_row(context: Any) -> None:
    context.violation_ring[1, 3] += 1


def wrong_field(context: Any) -> None:
    context.violation_ring[0, 6] += 1


def past_the_ring(context: Any) -> None:
    ring = context.violation_ring
    torch.as_strided(ring, (1,), (1,), ring.storage_offset() + ring.numel())[0] = 1


def raises(_: Any) -> None:
    raise RuntimeError("no")


def test_agreement(chain_case: BuildCase, defective: BuildTarget) -> None:
    verdict = judge(chain_case(), defective())
    assert verdict.agrees
    assert verdict.signature == ""


@pytest.mark.parametrize(
    ("defect", "signature", "line"),
    [
        (
            {"after_write": wrong_prev_hash},
            "write: canary_buf.prev_hash",
            "slot 2, prev_hash (request 0, entry 1, chain position 1): "
            "expected 0xdbc1207686f8bbc5, found 0xdbc1207686f8bbc6",
        ),
        (
            {"after_write": wrong_token_and_hash},
            "write: canary_buf.prev_hash",
            None,
        ),
        (
            {"after_write": miscount},
            "write: slot_run_counter",
            "slot_run_counter: expected 3, found 4",
        ),
        (
            {"after_write": change_a_source},
            "write: input real_kv_sources[0].tensor",
            None,
        ),
        ({"after_write": past_the_ring}, "write: guard after violation_ring", None),
        (
            {"after_write": raises},
            "write: raised RuntimeError, not nothing",
            "exception: expected none, found RuntimeError: no",
        ),
        ({"after_verify": miscount}, "verify: slot_run_counter", None),
        ({"after_verify": drop_the_row}, "verify: violation_ring bits 4", None),
        ({"after_verify": lose_a_bit}, "verify: violation_ring bits 4", None),
        ({"after_verify": wrong_field}, "verify: violation_ring.expected_aux", None),
    ],
)
def test_signatures(
    chain_case: BuildCase,
    defective: BuildTarget,
    defect: dict[str, Any],
    signature: str,
    line: str | None,
) -> None:
    case = chain_case(Flip(region="real_kv_sources[0].tensor", offset=64, mask=1))
    verdict = judge(case, defective(**defect))
    assert verdict.signature == signature
    if line is not None:
        assert verdict.mismatches[0].line() == line


@pytest.mark.parametrize(
    "defect",
    [
        {"after_write": wrong_prev_hash},
        {"after_write": miscount},
        {"after_write": change_a_source},
        {"after_write": raises},
        {"after_verify": drop_the_row},
    ],
)
def test_the_fast_path_sees_what_the_slow_one_explains(
    chain_case: BuildCase, defective: BuildTarget, defect: dict[str, Any]
) -> None:
    clean = Flip(region="real_kv_sources[0].tensor", offset=64, mask=1)
    cases = [chain_case(clean), case_at(1, 2, "valid"), chain_case(clean)]
    failing = Fuzzer(defective(**defect)).failing(cases)
    assert {0, 2} <= set(failing)


@pytest.mark.parametrize(
    ("defect", "signature", "place"),
    [
        (
            drop_the_row,
            "verify: the reference's violation_ring.unstored",
            "the reference's violation_ring[0]",
        ),
        (
            touch_the_next_row,
            "verify: the reference's violation_ring.untouched",
            "the reference's violation_ring[1], which no launch stores to",
        ),
    ],
)
def test_a_reference_whose_own_ring_is_wrong_is_blamed(
    chain_case: BuildCase,
    defective: BuildTarget,
    defect: Callable[[Any], None],
    signature: str,
    place: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run_wrongly(launches: list[Any]) -> Any:
        rows = run_verify_batch(launches)
        for launch in launches:
            defect(launch.context)
        return rows

    monkeypatch.setattr(execution, "run_verify_batch", run_wrongly)
    case = chain_case(Flip(region="real_kv_sources[0].tensor", offset=32, mask=1), ring_capacity=32)
    verdict = judge(case, defective())

    assert verdict.signature == signature
    assert [mismatch.place for mismatch in verdict.mismatches] == [place]
    assert Fuzzer(defective()).failing([case]) == [0]
    assert explain(case, verdict).headline.startswith(
        "After step 2 (verify), in the reference's ring, "
    )


def test_a_padded_slot_is_guarded_byte_by_byte(
    chain_case: BuildCase, defective: BuildTarget
) -> None:
    def touch_padding(context: Any) -> None:
        context.canary_buf[1, 39] ^= 0xFF

    case = chain_case(slot_stride_bytes=40)
    verdict = judge(case, defective(after_write=touch_padding))
    assert verdict.signature == "write: canary_buf.padding"


def test_another_refusal_is_a_mismatch(chain_case: BuildCase, defective: BuildTarget) -> None:
    case = chain_case()
    step = replace(case.steps[0], faults=(Fault(kind="hash_mode", amount=3),))
    refused = replace(case, steps=(step, *case.steps[1:]))
    assert judge(refused, defective()).agrees

    def refuse_nothing(**_: Any) -> None:
        return

    target = replace_write(defective(), refuse_nothing)
    assert judge(refused, target).signature == "write: raised nothing, not ValueError"


def replace_write(target: Target, write: Callable[..., None]) -> Target:
    return Target(name="lenient", device="cpu", write=write, verify=target.verify)
