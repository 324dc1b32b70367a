"""No false alarms: kernels that are written otherwise and are right differ from nothing."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch

from kv_canary_fuzz.harness.execution.fuzzer import Fuzzer
from kv_canary_fuzz.harness.targets.target import target_of
from kv_canary_fuzz.kernels import emulated
from kv_canary_fuzz.kernels.source import Patch

BATCH = 128
FEW, MANY = BATCH, 20_000

DATA = tomllib.loads(Path(__file__).with_name("correct_variants.toml").read_text(encoding="utf-8"))
VARIANTS: dict[str, dict[str, Any]] = {variant["name"]: variant for variant in DATA["variants"]}


def first_failing(variant: dict[str, Any], most_cases: int) -> int | None:
    torch.set_num_threads(1)
    patches = [Patch(**patch) for patch in variant.get("patches", ())]
    geometry = emulated.Geometry(**variant["geometry"]) if "geometry" in variant else None
    fuzzer = Fuzzer(target_of(variant["name"], emulated.build(patches=patches, geometry=geometry)))
    for first in range(0, most_cases, BATCH):
        failing = fuzzer.failing(fuzzer.generate(11, range(first, first + BATCH), "all"))
        if failing:
            return first + failing[0]
    return None


def test_every_variant_is_another_one() -> None:
    changes = [(v.get("patches"), v.get("geometry")) for v in DATA["variants"]]
    assert len(VARIANTS) == len(changes) >= 18
    assert all(patches or geometry for patches, geometry in changes)
    assert [change for change in changes if changes.count(change) > 1] == []


@pytest.mark.parametrize("name", VARIANTS)
def test_a_correct_variant_stays_clean(name: str) -> None:
    assert first_failing(VARIANTS[name], FEW) is None


@pytest.mark.nightly
@pytest.mark.parametrize("name", VARIANTS)
def test_a_correct_variant_stays_clean_for_long(name: str) -> None:
    assert first_failing(VARIANTS[name], MANY) is None
