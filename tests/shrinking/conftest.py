"""Cases and a reference-like model for shrinking without kernels."""

from __future__ import annotations

import types
from collections.abc import Callable
from pathlib import Path

import pytest

from kv_canary_fuzz.harness.execution.layout import lay_out
from kv_canary_fuzz.harness.judging.verdict import judge
from kv_canary_fuzz.harness.targets.target import Target, target_of
from kv_canary_fuzz.reference import scalar_model
from kv_canary_fuzz.strategies.case import (
    Case,
    Column,
    CorruptStep,
    Flip,
    Source,
    SwapSlots,
    VerifyStep,
    WriteStep,
)
from kv_canary_fuzz.strategies.content import Content
from kv_canary_fuzz.strategies.prng import case_at

SMALL_BYTES = 50_000


def column(*values: int) -> Column:
    return Column(values=values, length=len(values))


@pytest.fixture
def forty_entries() -> Case:
    """Write 40 slots of 4 requests, flip a KV byte and swap two slots, verify all 40."""
    slots = tuple(range(2, 82, 2))
    tokens = tuple(1000 + 7 * k for k in range(40))
    positions = tuple(k % 10 + 5 for k in range(40))
    write = WriteStep(
        write_offsets=Column(values=(0, 10, 20, 30, 40), length=8, fill=40),
        write_seed_slot_indices=Column(values=(-1, -1, -1, -1), length=7, fill=9),
        write_num_valid_reqs=4,
        input_ids=Column(values=tokens, length=48, fill=-7),
        positions=Column(values=positions, length=48, fill=3),
        out_cache_loc=Column(values=slots, length=48, fill=-1),
        kernel_kind=3,
    )
    corrupt = CorruptStep(
        edits=(
            Flip(region="real_kv_sources[1].tensor", offset=400, mask=64),
            SwapSlots(first=6, second=20),
        )
    )
    verify = VerifyStep(
        verify_slot_indices=Column(values=slots, length=64, fill=77),
        verify_expected_tokens=Column(values=tokens, length=64, fill=5),
        verify_expected_positions=Column(values=positions, length=64, fill=6),
        verify_prev_slot_indices=Column(
            values=tuple(-1 if k % 10 == 0 else slots[k - 1] for k in range(40)), length=64
        ),
        verify_num_valid=40,
        check_verify_expected_token=True,
        kernel_kind=5,
    )
    return Case(
        num_slots=96,
        slot_stride_bytes=64,
        canary_buf=Content(seed=11),
        ring_capacity=50,
        violation_ring=Content(seed=12),
        violation_write_index=3,
        slot_run_counter=1234,
        kernel_run_counter=-9,
        real_kv_sources=(
            Source(
                rows=24,
                row_bytes=160,
                page_size=4,
                num_bytes_per_token=32,
                read_bytes=16,
                content=Content(seed=13),
            ),
            Source(
                rows=96,
                row_bytes=64,
                page_size=1,
                num_bytes_per_token=64,
                read_bytes=48,
                content=Content(seed=14),
            ),
        ),
        real_kv_hash_mode=2,
        steps=(write, corrupt, verify),
        schedule=99,
    )


@pytest.fixture(scope="session")
def planted() -> Callable[[str, str], Target]:
    """Builds: the scalar model with one piece of its source replaced, as a target."""
    source = Path(scalar_model.__file__).read_text(encoding="utf-8")

    def build(old: str, new: str) -> Target:
        assert source.count(old) == 1
        module = types.ModuleType("kv_canary_fuzz.reference.planted_model")
        module.__package__ = "kv_canary_fuzz.reference"
        exec(compile(source.replace(old, new), "planted_model", "exec"), vars(module))
        return target_of("planted", module)

    return build


@pytest.fixture(scope="session")
def first_failing() -> Callable[[Target, int, str], Case]:
    """Finds: the first case of a campaign that shows a signature on a target."""

    def find(target: Target, seed: int, signature: str) -> Case:
        cases = (case_at(seed, index) for index in range(2000))
        small = (case for case in cases if lay_out(case).size < SMALL_BYTES)
        return next(case for case in small if judge(case, target).signature == signature)

    return find
