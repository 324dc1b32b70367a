"""sglang's own torch reference as a third implementation, where sglang is installed."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
import torch

from kv_canary_fuzz.harness.execution.fuzzer import Fuzzer
from kv_canary_fuzz.harness.judging.verdict import judge
from kv_canary_fuzz.harness.targets.builtin import load_target

CASES_PER_TEST = 512

pytestmark = pytest.mark.skipif(
    find_spec("sglang") is None,
    reason="sglang is not installed: pip install --no-deps sglang==0.5.23",
)


@pytest.mark.parametrize("part", range(5))
def test_a_valid_campaign_agrees(part: int) -> None:
    torch.set_num_threads(1)
    target = load_target("sglang-reference")
    fuzzer = Fuzzer(target)
    first = part * CASES_PER_TEST
    cases = fuzzer.generate(20, range(first, first + CASES_PER_TEST), "valid")
    failing = fuzzer.failing(cases)
    assert [judge(cases[position], target).signature for position in failing] == []
