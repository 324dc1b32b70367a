"""What the campaign found in sglang 0.5.23, as the committed ledger has it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from kv_canary_fuzz.harness.execution.fuzzer import Fuzzer
from kv_canary_fuzz.harness.findings.ledger import LedgerEntry, read_ledger, where_of
from kv_canary_fuzz.harness.findings.reproducer import read_reproducer
from kv_canary_fuzz.harness.judging.plainest import plainest
from kv_canary_fuzz.harness.judging.verdict import judge
from kv_canary_fuzz.harness.targets.builtin import load_target
from kv_canary_fuzz.harness.targets.sglang_tree import installed_root
from kv_canary_fuzz.strategies.circumstances import circumstances

REPORTS = Path(__file__).parents[2] / "reports"
LEDGER = read_ledger(REPORTS / "ledger.toml")
NAME = "sglang-reference"
ENTRIES = [entry for entry in LEDGER.findings if entry.target == NAME]
CASES = 192

without_sglang = pytest.mark.skipif(
    installed_root() is None,
    reason="sglang is not installed: pip install --no-deps sglang==0.5.23",
)


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def test_the_differences_that_are_known_to_exist_are_there() -> None:
    found = {where for entry in ENTRIES for where in where_of(entry.signature)}
    assert found >= {
        *("offsets descending", "offsets negative", "offsets beyond"),
        *("write slot_beyond", "write seed_beyond", "verify slot_negative"),
        *("state index_negative", "state index_wraps", "requests beyond", "entries beyond"),
    }
    late = "write: kernel_run_counter, where fault expected_missing"
    assert LEDGER.entry(NAME, late) is not None
    assert all(e.title and e.what and e.version == "0.5.23" and e.reproducer for e in ENTRIES)
    assert {entry.state for entry in ENTRIES} == {"tolerated"}


def test_a_reproducer_has_the_inputs_that_its_entry_names_and_no_others() -> None:
    for entry in LEDGER.findings:
        case = read_reproducer(REPORTS / entry.reproducer).case
        assert circumstances(case, len(case.steps) - 1) == where_of(entry.signature), entry


@without_sglang
@pytest.mark.parametrize("entry", ENTRIES, ids=[entry.signature for entry in ENTRIES])
def test_an_entry_happens(entry: LedgerEntry) -> None:
    found = read_reproducer(REPORTS / entry.reproducer)
    signature = judge(found.case, load_target(NAME)).signature
    assert signature == found.signature == entry.signature


@without_sglang
@pytest.mark.parametrize("domain", ["hardened", "refused"])
def test_a_campaign_finds_nothing_that_is_not_there(domain: str) -> None:
    target = load_target(NAME)
    fuzzer = Fuzzer(target)
    cases = fuzzer.generate(2026, range(CASES), domain)
    failing = [cases[position] for position in fuzzer.failing(cases)]
    assert len(failing) > CASES // 3
    for case in failing:
        _, verdict = plainest(case, judge(case, target), target, None)
        assert LEDGER.knows(NAME, verdict.signature), verdict.signature
