"""Every refused launch that the grammar draws is really refused, and nothing moves."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from kv_canary_fuzz.harness.execution.arena import allocate, fill, lay_out_batch
from kv_canary_fuzz.harness.execution.execution import run_reference, run_target
from kv_canary_fuzz.harness.execution.tensors import Memory
from kv_canary_fuzz.harness.targets.builtin import load_target
from kv_canary_fuzz.strategies.case import Case, CorruptStep
from kv_canary_fuzz.strategies.faults import KINDS
from kv_canary_fuzz.strategies.prng import case_at

CASES = 1500


def faults(case: Case, step: int) -> tuple[str, ...]:
    found = case.steps[step]
    return () if isinstance(found, CorruptStep) else tuple(f.kind for f in found.faults)


def only_refused(case: Case) -> Case:
    """The case with nothing but its illegal launches."""
    steps = tuple(step for n, step in enumerate(case.steps) if faults(case, n))
    return replace(case, steps=steps)


@pytest.fixture(scope="module")
def refused() -> list[Case]:
    return [only_refused(case_at(31, index, "refused")) for index in range(CASES)]


def test_every_kind_is_refused_by_reference_and_kernel_alike(refused: list[Case]) -> None:
    batch = lay_out_batch(refused)
    before = allocate(batch.size)
    fill(batch, before)
    wanted = {(n, k) for n, case in enumerate(refused) for k in range(len(case.steps))}
    runs = []
    for run in (
        lambda memory: run_reference(batch, memory),
        lambda memory: run_target(load_target("emulated"), batch, memory),
    ):
        buffer = allocate(batch.size)
        buffer[:] = before
        runs.append(run(Memory(buffer, "cpu")))
        assert np.array_equal(buffer, before)
    assert runs[0].raised == runs[1].raised
    assert runs[0].raised.keys() == wanted
    assert {raised.kind for raised in runs[0].raised.values()} == {"ValueError"}
    assert all(raised.message.startswith("kv-canary: ") for raised in runs[0].raised.values())
    met = {kind for case in refused for n in range(len(case.steps)) for kind in faults(case, n)}
    assert met == set(KINDS)
