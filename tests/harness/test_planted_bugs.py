"""Planted bugs, end to end: found, shrunk, written, replayed, explained, blamed on the kernel."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
import torch
from rich.console import Console

from kv_canary_fuzz.harness.execution.fuzzer import Fuzzer
from kv_canary_fuzz.harness.findings.reproducer import Reproducer, read_reproducer
from kv_canary_fuzz.harness.findings.shrunk_file import shrink_to_file
from kv_canary_fuzz.harness.judging.opinion import who_stands_alone
from kv_canary_fuzz.harness.judging.verdict import judge
from kv_canary_fuzz.harness.targets.builtin import load_target
from kv_canary_fuzz.harness.targets.target import Target
from kv_canary_fuzz.reports.case_text import case_text
from kv_canary_fuzz.reports.verdict_text import verdict_text
from kv_canary_fuzz.strategies.case import Case

BATCH = 128
MOST_CASES = 20_000
MOST_BYTES = 4096

SINGLE_FIELD = ("token_truncated", "wrong_fail_bit", "real_kv_unchecked", "skipped_counted")

QUICKEST = (
    *("anchor_raw", "all_folds_16", "fold_word_order", "page_mask_short", "column_by_fold_bytes"),
    *("seed_unlinked", "first_duplicate_stays", "real_kv_unchecked", "wrong_fail_bit"),
    *("row_hash_after_entry", "row_stored_twice", "negative_index_stored", "run_counter_32_bits"),
    *("launch_counted_by_block", "enable_compared_with_one", "negative_slot_from_end"),
    *("verify_heals", "write_past_slot", "claim_by_store", "workers_overlap"),
)
"""Twenty of the board's quickest, of every kind; `kv-canary-fuzz mutants` runs them all."""

KEPT = sorted((Path(__file__).parents[2] / "reports" / "reproducers").glob("*.kvcase.json"))
"""What planted bugs left, replayed on the kernels as they are in every run of the tests."""


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def first_failing(target: Target, seed: int) -> Case:
    fuzzer = Fuzzer(target)
    for first in range(0, MOST_CASES, BATCH):
        cases = fuzzer.generate(seed, range(first, first + BATCH), "all")
        failing = fuzzer.failing(cases)
        if failing:
            return cases[failing[0]]
    raise AssertionError(f"{target.name} not found in {MOST_CASES} cases of seed {seed}")


def shrunk(target: Target, case: Case, path: Path) -> Reproducer:
    found = Reproducer(
        case=case,
        signature=judge(case, target).signature,
        target=target.name,
        reference="torch",
    )
    return shrink_to_file(found, target, None, path, budget_seconds=60)


def text_of(found: Reproducer, target: Target) -> str:
    console = Console(file=StringIO(), width=1000)
    console.print(case_text(found.case))
    console.print(verdict_text(found.case, judge(found.case, target)))
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("name", QUICKEST)
def test_from_the_seed_to_the_explanation(name: str, tmp_path: Path) -> None:
    target = load_target(f"planted:{name}")
    path = tmp_path / "shrunk.kvcase.json"
    small = shrunk(target, first_failing(target, seed=1), path)

    replayed = read_reproducer(path)
    assert replayed == small
    assert path.stat().st_size <= MOST_BYTES
    verdict = judge(replayed.case, target)
    assert verdict.signature == small.signature
    assert judge(replayed.case, load_target("emulated")).agrees
    assert who_stands_alone(replayed.case, target, None).startswith(f"{target.name} stands alone")
    explained = text_of(replayed, target)
    assert verdict.signature in explained
    assert verdict.mismatches[0].line() in explained


@pytest.mark.parametrize("name", SINGLE_FIELD)
def test_one_normal_form_from_twenty_seeds(name: str, tmp_path: Path) -> None:
    target = load_target(f"planted:{name}")
    forms = {
        shrunk(target, first_failing(target, seed), tmp_path / f"{seed}.kvcase.json").case
        for seed in range(20)
    }
    assert len(forms) == 1


@pytest.mark.nightly
@pytest.mark.parametrize("path", KEPT, ids=[path.name for path in KEPT])
def test_a_kept_reproducer_shows_the_bug_that_it_is_from(path: Path) -> None:
    found = read_reproducer(path)
    bug = found.note.removeprefix("shrunk from the planted bug ").partition(";")[0]
    signature = judge(found.case, load_target(f"planted:{bug}")).signature
    assert signature == found.signature
    assert judge(found.case, load_target(found.target)).agrees
