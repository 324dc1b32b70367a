"""A reproducer with every kind of part, and its file."""

from __future__ import annotations

from pathlib import Path

import pytest

from kv_canary_fuzz.harness.findings.reproducer import Reproducer, write_reproducer
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
from kv_canary_fuzz.strategies.content import Content, Patch


@pytest.fixture
def reproducer() -> Reproducer:
    write = WriteStep(
        write_offsets=Column(values=(0, 2), length=4, fill=2, tail=(-5,)),
        write_seed_slot_indices=Column(values=(-1,), length=3),
        write_num_valid_reqs=1,
        input_ids=Column(values=(2**63 - 1, -(2**63)), length=2),
        positions=Column(length=2),
        out_cache_loc=Column(values=(3, 1), length=2),
        expected_input_tokens=Column(length=2),
        expected_input_positions=Column(length=2),
        enable_write_input_assert=True,
    )
    verify = VerifyStep(
        verify_slot_indices=Column(values=tuple(range(1, 41)), length=40),
        verify_expected_tokens=Column(length=40),
        verify_expected_positions=Column(length=40),
        verify_prev_slot_indices=Column(length=40),
        verify_num_valid=40,
        faults=(Fault(kind="hash_mode", amount=3),),
    )
    edits = (
        Flip(region="real_kv_sources[0].tensor", offset=8, mask=1),
        SwapSlots(first=1, second=2),
    )
    case = Case(
        num_slots=41,
        ring_capacity=2,
        canary_buf=Content(seed=2**64 - 1, patches=(Patch(offset=32, hex="01ff"),)),
        real_kv_sources=(
            Source(rows=41, row_bytes=16, page_size=1, num_bytes_per_token=16, read_bytes=16),
        ),
        real_kv_hash_mode=1,
        steps=(write, CorruptStep(edits=edits), verify),
    )
    return Reproducer(
        case=case,
        signature="write: canary_buf.token",
        target="planted:token_truncated",
        reference="torch",
        mismatches=("slot 3, token: expected 9223372036854775807, found -1",),
        seed=5,
        index=77,
        versions={"torch": "2.13.0"},
        device="cpu",
    )


@pytest.fixture
def file(tmp_path: Path, reproducer: Reproducer) -> Path:
    path = tmp_path / "found.kvcase.json"
    write_reproducer(path, reproducer)
    return path
