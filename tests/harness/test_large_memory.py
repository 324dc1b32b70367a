"""Launches spread over huge memory: small cases agree there, and truncated offsets are found.

Everywhere but in two tests, huge is 64 KiB.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace as changed
from typing import Any

import pytest
import torch

from kv_canary_fuzz.harness.execution.fuzzer import Fuzzer
from kv_canary_fuzz.harness.judging.verdict import judge, lines_of
from kv_canary_fuzz.harness.targets.builtin import load_target
from kv_canary_fuzz.harness.targets.large import Expanse, large_target
from kv_canary_fuzz.harness.targets.target import Target, TargetError
from kv_canary_fuzz.reference import VerifyOrWriteContext
from kv_canary_fuzz.strategies.case import Case, WriteStep
from kv_canary_fuzz.strategies.classify import Domain
from kv_canary_fuzz.strategies.prng import case_at

REACH = 2**16
SMALL = Expanse(reach=REACH, requests=(65, 70), entries=(300, 65, 129))
CASES = 120


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return [case_at(6, index) for index in range(CASES)]


def beyond(context: VerifyOrWriteContext) -> list[int]:
    """The offsets of the last row of canary_buf and of each source of several rows."""
    tensors = [context.canary_buf, *(source.tensor for source in context.real_kv_sources)]
    return [t.stride(0) * (t.size(0) - 1) for t in tensors if t.size(0) > 1]


def watched(inner: Target, watch: Callable[[dict[str, Any]], None]) -> Target:
    def write(**arguments: Any) -> None:
        watch(arguments)
        inner.write(**arguments)

    def verify(**arguments: Any) -> None:
        watch(arguments)
        inner.verify(**arguments)

    return changed(inner, write=write, verify=verify)


def test_small_cases_agree_in_large_memory(cases: list[Case]) -> None:
    far: list[int] = []
    requests: set[int] = set()
    entries: set[int] = set()

    def watch(arguments: dict[str, Any]) -> None:
        far.extend(beyond(arguments["context"]))
        plan = arguments["plan"]
        if "input_ids" in arguments:
            requests.add(plan.write_seed_slot_indices.size(0))
            entries.add(arguments["input_ids"].size(0))
        else:
            entries.add(plan.verify_slot_indices.size(0))

    target = large_target(watched(load_target("emulated"), watch), SMALL)
    assert (target.name, target.domains) == ("large:emulated", {Domain.VALID})
    assert Fuzzer(target).failing(cases) == []
    assert min(far) > REACH // 2
    assert len([offset for offset in far if offset > REACH]) > len(far) * 3 // 4
    assert requests >= {65, 70}
    assert entries >= {300, 65, 129}


def test_rows_stay_where_a_lone_page_held_all_slots() -> None:
    seen: list[tuple[int, int]] = []
    target = large_target(
        watched(
            load_target("emulated"),
            lambda arguments: seen.extend(
                (source.page_size, source.tensor.size(0))
                for source in arguments["context"].real_kv_sources
            ),
        ),
        SMALL,
    )
    lone = [
        case
        for case in (case_at(6, index) for index in range(4000))
        if any(s.rows == 1 and s.page_size > 1 for s in case.real_kv_sources)
    ][:20]
    assert len(lone) == 20
    assert Fuzzer(target).failing(lone) == []
    assert any(page == 1 and rows > 1 for page, rows in seen)


@pytest.mark.parametrize("region", ["canary_buf", "source"])
def test_offsets_cut_to_fewer_bits_are_found(region: str, cases: list[Case]) -> None:
    """A kernel that sees every row behind ``REACH`` at the remainder of its offset."""
    inner = load_target("emulated")

    def cut(tensor: torch.Tensor) -> torch.Tensor:
        rows, width = tensor.shape
        if rows < 2 or tensor.stride(0) * (rows - 1) < REACH:
            return tensor
        wrong = tensor.clone()
        offset = tensor.stride(0) * (rows - 1) % REACH
        flat = tensor.view(-1)
        size = min(width, flat.numel() - offset)
        wrong[-1, :size] = flat[offset : offset + size]
        return wrong

    def write(**arguments: Any) -> None:
        context = arguments["context"]
        if region == "source":
            sources = [changed(s, tensor=cut(s.tensor)) for s in context.real_kv_sources]
            arguments["context"] = changed(context, real_kv_sources=tuple(sources))
            inner.write(**arguments)
            return
        rows = context.canary_buf
        seen = cut(rows)
        inner.write(**{**arguments, "context": changed(context, canary_buf=seen)})
        if seen is not rows:
            rows[:-1].copy_(seen[:-1])
            offset = rows.stride(0) * (rows.size(0) - 1) % REACH // 8 * 8
            rows.view(-1)[offset : offset + 32] = seen[-1, :32]

    broken = changed(inner, write=write)
    assert Fuzzer(broken).failing([case for case in cases[:64] if fits(case)]) == []
    assert len(Fuzzer(large_target(broken, SMALL)).failing(cases)) > CASES // 10


def fits(case: Case) -> bool:
    """Whether nothing of the case lies behind REACH anyway."""
    sources = [source.rows * source.row_bytes for source in case.real_kv_sources]
    return max([case.num_slots * case.slot_stride_bytes, *sources]) < REACH


def test_a_stray_write_is_named(cases: list[Case]) -> None:
    inner = load_target("emulated")

    def write(**arguments: Any) -> None:
        inner.write(**arguments)
        canary = arguments["context"].canary_buf
        canary[1, canary.size(1) - 16] = 7

    case = next(case for case in cases if isinstance(case.steps[0], WriteStep))
    target = large_target(changed(inner, write=write), SMALL)
    for _ in range(2):  # the second time in memory that the first left behind
        verdict = judge(case, target)
        assert verdict.signature == "write: raised StrayWrite, not nothing"
        assert "canary_buf: bytes " in lines_of(verdict)[0]
        assert lines_of(verdict)[0].endswith(" belong to nobody and changed")
    assert judge(case, large_target(inner, SMALL)).agrees


def test_the_large_target_is_loaded_by_name() -> None:
    assert load_target("large:emulated").name == "large:emulated"
    with pytest.raises(TargetError, match=r"^no planted bug 'none'"):
        load_target("large:planted:none")


def test_a_canary_buffer_past_two_gibibytes_on_the_cpu(cases: list[Case]) -> None:
    far: list[int] = []
    inner = watched(
        load_target("emulated"), lambda arguments: far.extend(beyond(arguments["context"]))
    )
    case = next(
        case
        for case in cases
        if not case.real_kv_sources and case.num_slots < 8 and len(case.steps) == 1
    )
    target = large_target(inner, SMALL._replace(reach=2**31))
    assert judge(case, target).agrees
    assert min(far) > 2**31


@pytest.mark.gpu
def test_small_cases_agree_in_gigabytes_of_a_gpu(cases: list[Case]) -> None:
    try:
        target = load_target("large:cuda")
    except TargetError as error:
        pytest.skip(str(error))
    assert Fuzzer(target).failing(cases[:100]) == []
