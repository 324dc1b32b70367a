"""Hand-made cases and defective targets for the harness's own tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kv_canary_fuzz.harness.targets.target import Target
from kv_canary_fuzz.reference import scalar_model
from kv_canary_fuzz.strategies.case import (
    Case,
    Column,
    CorruptStep,
    Edit,
    Source,
    VerifyStep,
    WriteStep,
)
from kv_canary_fuzz.strategies.content import Content

Defect = Callable[[Any], None]


def column(*values: int) -> Column:
    return Column(values=values, length=len(values))


@pytest.fixture
def chain_case() -> Callable[..., Case]:
    """Builds: one request stamps slots 1, 2, 3 (tokens 7, 8, 9); then edits; then all verified."""

    def build(*edits: Edit, ring_capacity: int = 8, **changes: Any) -> Case:
        write = WriteStep(
            write_offsets=column(0, 3),
            write_seed_slot_indices=column(-1),
            write_num_valid_reqs=1,
            input_ids=column(7, 8, 9),
            positions=column(0, 1, 2),
            out_cache_loc=column(1, 2, 3),
        )
        verify = VerifyStep(
            verify_slot_indices=column(1, 2, 3),
            verify_expected_tokens=column(7, 8, 9),
            verify_expected_positions=column(0, 1, 2),
            verify_prev_slot_indices=column(-1, 1, 2),
            verify_num_valid=3,
            check_verify_expected_token=True,
        )
        source = Source(
            rows=4,
            row_bytes=32,
            page_size=1,
            num_bytes_per_token=32,
            read_bytes=16,
            content=Content(seed=3),
        )
        steps = (write, CorruptStep(edits=edits), verify) if edits else (write, verify)
        fields = {
            "num_slots": 4,
            "ring_capacity": ring_capacity,
            "real_kv_sources": (source,),
            "real_kv_hash_mode": 2,
            "steps": steps,
        }
        return Case(**(fields | changes))

    return build


@pytest.fixture
def defective() -> Callable[..., Target]:
    """Builds: the scalar model, with something done to the launch's context after it ran."""

    def build(*, after_write: Defect | None = None, after_verify: Defect | None = None) -> Target:
        def write(**arguments: Any) -> None:
            scalar_model.launch_canary_write_kernel(**arguments)
            if after_write:
                after_write(arguments["context"])

        def verify(**arguments: Any) -> None:
            scalar_model.launch_canary_verify_kernel(**arguments)
            if after_verify:
                after_verify(arguments["context"])

        return Target(name="defective", device="cpu", write=write, verify=verify)

    return build
