"""Any case can be shown (field report H7), and every run is on fresh memory (H4)."""

from __future__ import annotations

from io import StringIO

import numpy as np
from hypothesis import given, settings
from rich.console import Console

from kv_canary_fuzz.harness.judging.check import CaseMismatch, mismatch_within
from kv_canary_fuzz.harness.judging.verdict import judge
from kv_canary_fuzz.harness.targets.builtin import load_target
from kv_canary_fuzz.harness.targets.target import Target
from kv_canary_fuzz.reports.case_text import case_text
from kv_canary_fuzz.reports.verdict_text import verdict_text
from kv_canary_fuzz.strategies.case import Case
from kv_canary_fuzz.strategies.hypothesis_driver import cases


def wreck(**arguments: object) -> None:
    """Fills everything that a launch may change, and some of what it may not, with one byte."""
    context = arguments["context"]
    for name in ("canary_buf", "violation_ring", "slot_run_counter", "violation_write_index"):
        getattr(context, name).fill_(0x5A)
    for source in context.real_kv_sources:  # type: ignore[attr-defined]
        source.tensor.fill_(0x5A)


WRECKED = Target(name="wrecked", device="cpu", write=wreck, verify=wreck)


@settings(max_examples=60, deadline=None)
@given(case=cases("all"))
def test_any_case_and_any_mismatch_can_be_shown(case: Case) -> None:
    console = Console(file=StringIO(), width=120)
    console.print(case_text(case))
    console.print(verdict_text(case, judge(case, WRECKED)))


@settings(max_examples=30, deadline=None)
@given(case=cases("all"))
def test_judging_twice_gives_the_same(case: Case) -> None:
    first, second = judge(case, WRECKED), judge(case, WRECKED)
    assert first.mismatches == second.mismatches
    assert np.array_equal(first.found, second.found)


@settings(max_examples=40, deadline=None)
@given(case=cases("all"))
def test_our_implementations_agree(case: Case) -> None:
    for name in ("emulated", "scalar", "torch"):
        assert judge(case, load_target(name)).agrees
    scalar = load_target("scalar")
    assert judge(case, load_target("emulated"), scalar).agrees


def test_a_mismatch_is_found_in_an_exception_group() -> None:
    mismatch = CaseMismatch(Case(num_slots=1), judge(Case(num_slots=1), load_target("torch")))
    group = ExceptionGroup("two", [ValueError(), ExceptionGroup("inner", [mismatch])])
    assert mismatch_within(group) is mismatch
    assert mismatch_within(ValueError()) is None
