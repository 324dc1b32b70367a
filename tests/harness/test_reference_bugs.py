"""Bugs planted in the torch reference: found, and blamed on the reference by the third opinion."""

from __future__ import annotations

import importlib
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

from kv_canary_fuzz import reference
from kv_canary_fuzz.harness.execution import execution
from kv_canary_fuzz.harness.execution.fuzzer import Fuzzer
from kv_canary_fuzz.harness.judging.opinion import who_stands_alone
from kv_canary_fuzz.harness.judging.verdict import judge
from kv_canary_fuzz.harness.targets.builtin import load_target
from kv_canary_fuzz.harness.targets.target import Target
from kv_canary_fuzz.kernels.source import Patch, apply_patches
from kv_canary_fuzz.strategies.case import Case

BUGS = tomllib.loads(Path(__file__).with_name("reference_bugs.toml").read_text(encoding="utf-8"))
PATCHES = {bug["name"]: [Patch(**patch) for patch in bug["patches"]] for bug in BUGS["bugs"]}
GOLDEN = Path(__file__).parents[1] / "golden" / "sglang-0.5.23.json.gz"

Plant = Callable[[str], ModuleType]


@pytest.fixture
def plant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plant]:
    """Makes the harness's torch reference a patched copy of itself, and returns the copy."""
    torch.set_num_threads(1)
    monkeypatch.syspath_prepend(tmp_path)
    planted: list[str] = []

    def build(name: str) -> ModuleType:
        folder = Path(reference.__file__).parent
        texts = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.py")}
        package = f"reference_with_{name}"
        planted.append(package)
        (tmp_path / package).mkdir()
        for file, text in apply_patches(texts, PATCHES[name]).items():
            (tmp_path / package / file).write_text(text, encoding="utf-8")
        copy = importlib.import_module(package)
        for batch in ("run_write_batch", "run_verify_batch"):
            monkeypatch.setattr(execution, batch, getattr(copy, batch))
        return copy

    yield build
    for module in [m for m in sys.modules if m.partition(".")[0] in planted]:
        del sys.modules[module]


def first_failing(target: Target, most_cases: int = 20_000) -> Case | None:
    fuzzer = Fuzzer(target)
    for first in range(0, most_cases, 128):
        cases = fuzzer.generate(1, range(first, first + 128), "all")
        failing = fuzzer.failing(cases)
        if failing:
            return cases[failing[0]]
    return None


def golden_disagreements(copy: ModuleType) -> int:
    golden = importlib.import_module(f"{copy.__name__}.golden")
    wrong = 0
    for vector in golden.read_golden(GOLDEN):
        launch = vector.build()
        run = copy.run_write_batch if vector.kernel == "write" else copy.run_verify_batch
        rows = [tuple(row) for row in run([launch]).values.tolist()]
        wrong += bool(vector.disagreements(launch.context, rows))
    return wrong


@pytest.mark.parametrize("name", PATCHES)
def test_it_is_found_and_the_reference_stands_alone(name: str, plant: Plant) -> None:
    plant(name)
    target = load_target("emulated")
    case = first_failing(target)

    assert case is not None
    assert not judge(case, target).agrees
    assert who_stands_alone(case, target, None) == (
        "the reference stands alone: the scalar model agrees with emulated"
    )


@pytest.mark.parametrize(
    "name", ["second_shift", "minus_one_compared", "slot_zero_no_seed", "whole_token_folded"]
)
def test_golden_vectors_and_scalar_model_catch_it_without_a_kernel(name: str, plant: Plant) -> None:
    assert golden_disagreements(plant(name)) > 0
    assert first_failing(load_target("scalar"), 1000) is not None


def test_kernel_and_reference_that_err_alike_agree_and_the_scalar_model_stands_against_both(
    plant: Plant,
) -> None:
    plant("second_shift")
    target = load_target("planted:hash_shift")
    assert first_failing(target, 256) is None

    case = first_failing(load_target("scalar"), 256)
    assert case is not None
    assert judge(case, target).agrees
    assert not judge(case, load_target("scalar")).agrees
