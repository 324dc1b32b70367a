"""A reproducer with company, wherever such files go: replayed, shown, shrunk, kept, reported."""

from __future__ import annotations

import sys
from datetime import date
from io import StringIO
from pathlib import Path

import pytest
from msgspec.structs import replace
from rich.console import Console

from kv_canary_fuzz.harness.campaign.campaign import run_campaign
from kv_canary_fuzz.harness.campaign.profiles import Profile, settings_for
from kv_canary_fuzz.harness.campaign.summary import Finding, Summary
from kv_canary_fuzz.harness.cli import main
from kv_canary_fuzz.harness.explaining.explain import explain
from kv_canary_fuzz.harness.findings.ledger import read_ledger
from kv_canary_fuzz.harness.findings.quarantine import Quarantine
from kv_canary_fuzz.harness.findings.reproducer import (
    Reproducer,
    encode_reproducer,
    read_reproducer,
    write_reproducer,
)
from kv_canary_fuzz.harness.findings.script import script_text
from kv_canary_fuzz.harness.findings.standing import ledger_notes, update_ledger
from kv_canary_fuzz.harness.isolation.loading import load_isolated
from kv_canary_fuzz.harness.judging.company import Company, silent_case
from kv_canary_fuzz.harness.judging.together import judge_in_company
from kv_canary_fuzz.harness.targets.target import Target
from kv_canary_fuzz.reports.page import report_html
from kv_canary_fuzz.reports.sarif import sarif_of
from kv_canary_fuzz.reports.summary_text import summary_lines
from kv_canary_fuzz.strategies.case import Case, Column, WriteStep

STATEFUL = """
from kv_canary_fuzz.reference import scalar_model

launch_canary_verify_kernel = scalar_model.launch_canary_verify_kernel
launches = 0


def launch_canary_write_kernel(**arguments):
    global launches
    launches += 1
    scalar_model.launch_canary_write_kernel(**arguments)
    if launches == 3 and WRONG:
        arguments["context"].slot_run_counter.add_(1)
"""
SIGNATURE = "in company: write: slot_run_counter"
ALONE_IT_AGREES = "alone it agrees; it differs with 2 other cases in its process and batch"
EMPTY = Case(
    num_slots=1,
    steps=(
        WriteStep(
            write_offsets=Column(length=2),
            write_seed_slot_indices=Column(values=(-1,), length=1),
            write_num_valid_reqs=0,
            input_ids=Column(),
            positions=Column(),
            out_cache_loc=Column(),
        ),
    ),
)


def found_of(target: str) -> Reproducer:
    company = Company(before=(EMPTY, silent_case(640), EMPTY), after=(EMPTY,))
    return Reproducer(
        case=EMPTY, company=company, signature=SIGNATURE, target=target, reference="torch"
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the targets ``stateful_wrong`` and ``stateful_right`` can be loaded."""
    folder = tmp_path_factory.mktemp("stateful")
    for name, wrong in (("wrong", "True"), ("right", "False")):
        (folder / f"stateful_{name}.py").write_text(STATEFUL.replace("WRONG", wrong))
    return folder


@pytest.fixture
def file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that shows its finding on ``stateful_wrong``; its folder is the current one."""
    monkeypatch.chdir(folder)
    path = folder / "found.kvcase.json"
    write_reproducer(path, found_of("stateful_wrong"))
    return path


@pytest.fixture
def wrong(file: Path) -> Target:
    assert file.exists()
    return load_isolated("stateful_wrong")


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["kv-canary-fuzz", *words])
    with pytest.raises(SystemExit) as caught:
        main()
    code = caught.value.code
    assert code is None or isinstance(code, int)
    return code or 0


def test_replay_runs_the_whole_batch(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "replay", str(file)) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith(
        "alone it agrees; it differs with 3 other cases in its process and batch, "
        "1 of them behind it"
    )
    assert "slot_run_counter: expected 0, found 1" in said
    assert run(monkeypatch, "replay", str(file), "--target", "stateful_right") == 0
    assert "in its company it agrees now" in capsys.readouterr().out


def test_show_says_what_stands_beside_the_case(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "show", str(file)) == 0
    said = capsys.readouterr().out
    assert "case 2 of 5 in one batch\nlaunches nothing and takes 640 bytes" in said
    assert "case 4 of 5 in one batch: the one that this is about" in said
    assert said.count("step 0: write") == 4


def test_shrink_leaves_what_is_needed(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = file.with_name("small.kvcase.json")
    assert run(monkeypatch, "shrink", str(file), "--seconds", "20", "--out", str(small)) == 0
    assert "case 3 of 3 in one batch: the one that this is about" in capsys.readouterr().out
    found = read_reproducer(small)
    assert found.signature == SIGNATURE
    assert found.mismatches == (ALONE_IT_AGREES, "slot_run_counter: expected 0, found 1")
    smaller = found.case
    assert found.company == Company(before=(smaller, smaller))
    assert smaller.num_slots == 1


@pytest.mark.nightly
def test_a_file_is_a_test_that_fails_and_says_why(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(stateful_wrong=STATEFUL.replace("WRONG", "True"))
    write_reproducer(pytester.path / "found.kvcase.json", found_of("stateful_wrong"))
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "found.kvcase.json")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"*{SIGNATURE}*", "*slot_run_counter: expected 0, found 1"])


def test_no_script_can_show_it(wrong: Target) -> None:
    found = found_of("stateful_wrong")
    verdict = judge_in_company(found.case, found.company, wrong)
    assert verdict.signature == SIGNATURE
    assert script_text(found, wrong, None, verdict) == ""


def finding_of(target: Target) -> Finding:
    found = found_of(target.name)
    verdict = judge_in_company(found.case, found.company, target)
    return Finding(
        signature=SIGNATURE,
        count=4,
        first_index=9,
        file="found.kvcase.json",
        folder="findings/x",
        lines=(ALONE_IT_AGREES, *(mismatch.line() for mismatch in verdict.mismatches)),
        reproducer=found,
        explanation=explain(found.case, verdict),
    )


@pytest.fixture(scope="module")
def run_of_eight(folder: Path) -> Summary:
    """A run that found nothing."""
    settings = settings_for(Profile.PLAIN, target="scalar", seed=1, cases=8)
    return run_campaign(settings, folder / "run", 1, Console(file=StringIO()))


def test_the_reports_show_it(wrong: Target, run_of_eight: Summary) -> None:
    summary = replace(run_of_eight, findings=(finding_of(wrong),))
    page = report_html(summary)
    assert f"<code>{SIGNATURE}</code>" in page
    assert "case 4 of 5 in one batch: the one that this is about" in page
    assert f"    {ALONE_IT_AGREES}" in summary_lines(summary, "run")
    [result] = sarif_of(summary)["runs"][0]["results"]
    assert ALONE_IT_AGREES in result["message"]["text"]


def test_the_ledger_keeps_it_and_tries_it_again(
    wrong: Target, run_of_eight: Summary, tmp_path: Path
) -> None:
    path = tmp_path / "ledger.toml"
    summary = replace(run_of_eight, target=wrong.name, findings=(finding_of(wrong),))
    assert update_ledger(path, summary, date(2026, 11, 30)) == [f"new: {SIGNATURE}"]
    ledger = read_ledger(path)
    [entry] = ledger.findings
    assert read_reproducer(tmp_path / entry.reproducer) == found_of(wrong.name)
    assert [note.outcome for note in ledger_notes(path, ledger, wrong, None, ())] == ["still there"]
    right = load_isolated("stateful_right")
    named = replace(ledger, findings=(replace(entry, target=right.name),))
    assert [note.outcome for note in ledger_notes(path, named, right, None, ())] == ["fixed"]
    kept = replace(ledger, findings=(replace(entry, state="quarantined"),))
    assert Quarantine(kept, wrong.name, tmp_path).holds(EMPTY)


def test_the_file_says_nothing_of_company_where_there_is_none() -> None:
    text = encode_reproducer(replace(found_of("x"), company=Company())).decode()
    assert '"company"' not in text
    assert '"company": {' in encode_reproducer(found_of("x")).decode()
