"""A target with every fault that a kernel can have; the first token of a write chooses."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest
from msgspec.structs import replace

from kv_canary_fuzz.harness.isolation.loading import load_isolated
from kv_canary_fuzz.harness.targets.target import Target
from kv_canary_fuzz.strategies.case import Case, Column, WriteStep

HERE = Path(__file__).parent

BuildCase = Callable[[str], Case]


def column(*values: int) -> Column:
    return Column(values=values, length=len(values))


@pytest.fixture(scope="session")
def write_of() -> BuildCase:
    """Builds: a case of one launch that writes into slots 1 and 2, and asks for a fault."""
    tokens = runpy.run_path(str(HERE / "faulty_target.py"))["TOKENS"]

    def build(fault: str = "") -> Case:
        write = WriteStep(
            write_offsets=column(0, 2),
            write_seed_slot_indices=column(-1),
            write_num_valid_reqs=1,
            input_ids=column(tokens[fault] if fault else 7, 5),
            positions=column(0, 1),
            out_cache_loc=column(1, 2),
        )
        return Case(num_slots=4, ring_capacity=2, steps=(write,))

    return build


@pytest.fixture(scope="session")
def faulty() -> Iterator[Target]:
    """The faulty target, isolated, with a deadline of 0.3 seconds."""
    sys.path.insert(0, str(HERE))
    try:
        yield load_isolated("faulty_target", 0.3)
    finally:
        sys.path.remove(str(HERE))


@pytest.fixture(scope="session")
def batch(write_of: BuildCase) -> Callable[..., list[Case]]:
    """Builds twelve cases of three launches each; by number, the fault of the second launch."""

    def build(faults: Mapping[int, str] = MappingProxyType({})) -> list[Case]:
        (plain,) = write_of().steps
        return [
            replace(case, steps=(plain, *case.steps, plain))
            for case in (write_of(faults.get(number, "")) for number in range(12))
        ]

    return build
