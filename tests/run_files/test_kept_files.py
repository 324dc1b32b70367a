"""Damaged ledgers, runs and corpora: one line, whatever is in them."""

from __future__ import annotations

import random
import runpy
from pathlib import Path

import pytest

from kv_canary_fuzz.harness.campaign.corpus import read_corpus
from kv_canary_fuzz.harness.campaign.run_folder import RunFolder
from kv_canary_fuzz.harness.campaign.summary import RunError, Summary, read_summary
from kv_canary_fuzz.harness.findings.ledger import LedgerError, read_ledger
from kv_canary_fuzz.harness.findings.reproducer import ReproducerError
from kv_canary_fuzz.reports.comparison_text import comparison_lines
from kv_canary_fuzz.reports.publish import render

MUTATIONS = runpy.run_path(str(Path(__file__).parents[1] / "reproducers" / "mutations.py"))
MUTATORS = MUTATIONS["mutated"], MUTATIONS["restructured"]

LEDGER = b"""\
[[findings]]
state = "tolerated"
signature = "write: slot_run_counter"
target = "mine"
since = "2026-01-02"

[[findings]]
state = "quarantined"
signature = "verify: raised ValueError, not nothing, where requests negative"
target = "mine"
where = ["requests negative", "fault dtype"]
"""


@pytest.mark.parametrize(
    "data",
    [
        b"a = " + b"[" * 100_000,
        b"a = " + b"9" * 5000,
        b"a = 2026-99-99",
        b"\xff",
        b"#" * (4 * 2**20 + 1),
        b'[[findings]]\nsignature = "a\\nb"\ntarget = "c"\nreproducer = "' + b"n" * 5000 + b'"',
        b'[[findings]]\nsignature = "a\\u001b"\ntarget = "c"\n' * 2,
    ],
)
def test_a_damaged_ledger_is_one_line(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "ledger.toml"
    path.write_bytes(data)
    with pytest.raises(LedgerError) as refused:
        read_ledger(path)
    assert str(refused.value).startswith(f"ledger {path}")
    assert str(refused.value).isprintable()


def test_mutated_ledgers(tmp_path: Path) -> None:
    rng, path = random.Random(3), tmp_path / "ledger.toml"
    refused = []
    for _ in range(500):
        path.write_bytes(MUTATIONS["mutated"](LEDGER, rng))
        try:
            read_ledger(path)
        except LedgerError as error:
            refused.append(str(error))
    assert 50 < len(refused) < 490
    assert all(map(str.isprintable, refused))


@pytest.mark.parametrize("count", [40, pytest.param(600, marks=pytest.mark.nightly)])
def test_mutated_runs(count: int, run_root: Path, run_summary: Summary, tmp_path: Path) -> None:
    """Refused in one line, or drawn and compared like any other."""
    rng, data = random.Random(count), (run_root / "run.json").read_bytes()
    refused = []
    for _ in range(count):
        (tmp_path / "run.json").write_bytes(rng.choice(MUTATORS)(data, rng))
        try:
            run = read_summary(tmp_path)
        except RunError as error:
            refused.append(str(error))
            continue
        render(RunFolder(tmp_path), run)
        comparison_lines(run_summary, run)
        comparison_lines(run, run_summary)
    assert count / 3 < len(refused) < count
    assert all(line.startswith(f"{tmp_path / 'run.json'}: ") for line in refused)
    assert all(map(str.isprintable, refused))


def test_a_run_of_impossible_parts_is_refused(
    run_root: Path, run_summary: Summary, tmp_path: Path
) -> None:
    text = (run_root / "run.json").read_text()
    contract, worker = run_summary.settings.contract, run_summary.timing.workers[0]
    for old, new, fault in (
        ('"cases": 1280', f'"cases": {10**30}', "$.settings.cases: is beyond 64 bits"),
        ('"num_slots": 1,', '"num_slots": 9999999999,', "$.findings[0].reproducer.case.num_slots"),
        (f'"contract": "{contract}"', '"contract": "1"', "$.settings.contract: '1' is none of"),
        (f'"bucket": {worker.bucket}', '"bucket": 0', "$.timing.workers[0].bucket: 0 is not from"),
    ):
        assert old in text, old
        (tmp_path / "run.json").write_text(text.replace(old, new, 1))
        with pytest.raises(RunError) as refused:
            read_summary(tmp_path)
        assert f"is no run: {fault}" in str(refused.value)


def test_a_run_that_is_too_long_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "run.json").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(RunError, match="is longer than the limit of 67108864 bytes"):
        read_summary(tmp_path)


def test_a_damaged_case_of_a_corpus_is_named(tmp_path: Path) -> None:
    path = tmp_path / "0123.kvcase.json"
    path.write_text('{"format": "kv-canary-fuzz case", "version": 1}')
    with pytest.raises(ReproducerError) as refused:
        read_corpus(tmp_path)
    assert str(refused.value).startswith(f"{path}: ")
