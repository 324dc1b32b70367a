"""What a ledger's states do to runs and replays: tolerated, quarantined, fixed."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from msgspec.structs import replace

from kv_canary_fuzz.harness.cli import main
from kv_canary_fuzz.harness.findings.ledger import Ledger, LedgerEntry, write_ledger
from kv_canary_fuzz.harness.findings.quarantine import Quarantine, circumstances_of
from kv_canary_fuzz.harness.findings.reproducer import Reproducer, write_reproducer
from kv_canary_fuzz.harness.findings.standing import standing_of
from kv_canary_fuzz.harness.judging.plainest import plainest
from kv_canary_fuzz.harness.judging.verdict import judge
from kv_canary_fuzz.harness.targets.builtin import load_target
from kv_canary_fuzz.strategies.case import Case, Column, WriteStep
from kv_canary_fuzz.strategies.circumstances import circumstances
from kv_canary_fuzz.strategies.classify import Domain
from kv_canary_fuzz.strategies.prng import case_at

DEADLY = "requests negative"
TARGET = """
import os
from kv_canary_fuzz.reference import scalar_model

DOMAINS = ("valid",)
launch_canary_verify_kernel = scalar_model.launch_canary_verify_kernel


def launch_canary_write_kernel(**arguments):
    if {deadly} and int(arguments["plan"].write_num_valid_reqs) < 0:
        os._exit(9)
    scalar_model.launch_canary_write_kernel(**arguments)
    if os.path.exists("wrong") and arguments["plan"].write_seed_slot_indices.shape[0] == 0:
        arguments["context"].kernel_run_counter.add_(1)
"""
NEGATIVE = Case(
    num_slots=2,
    steps=(
        WriteStep(
            write_offsets=Column(length=2),
            write_seed_slot_indices=Column(length=1, fill=-1),
            write_num_valid_reqs=-1,
            input_ids=Column(),
            positions=Column(),
            out_cache_loc=Column(),
        ),
    ),
)
"""Open in one way: its count is negative."""

SIGNATURE = "write: kernel_run_counter, where requests no_capacity"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Builds a folder with a target in a module of that name; it is wrong while a file says so."""
    monkeypatch.chdir(tmp_path)
    torch.set_num_threads(1)

    def build(name: str, *, deadly: bool = False, wrong: bool = False) -> Path:
        path = tmp_path / f"{name}.py"
        path.write_text(TARGET.format(deadly=deadly))
        (tmp_path / "wrong").unlink(missing_ok=True)
        if wrong:
            (tmp_path / "wrong").touch()
        return tmp_path

    return build


def run(monkeypatch: pytest.MonkeyPatch, target: str, *more: str) -> int:
    words = ("run", "--target", target, "--domain", "hardened", "--workers", "1", "--seed", "5")
    rest = ("--cases", "160", "--shrink-seconds", "3", "--out", f"run-{target}", *more)
    monkeypatch.setattr(sys, "argv", ["kv-canary-fuzz", *words, *rest])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def ledger_of(folder: Path, *entries: LedgerEntry) -> None:
    write_ledger(folder / "ledger.toml", Ledger(entries))


def first_finding(name: str) -> Case:
    """The plainest form of the first case that shows SIGNATURE."""
    target = load_target(name)
    for index in range(400):
        case = case_at(5, index, "hardened")
        small, verdict = plainest(case, judge(case, target), target, None)
        if verdict.signature == SIGNATURE:
            return small
    raise AssertionError(f"{SIGNATURE} not found")


def test_a_tolerated_entry_fails_the_run_on_the_day_it_no_longer_happens(
    project: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    folder = project("tolerated_once", wrong=True)
    reproducer(folder, first_finding("tolerated_once"), SIGNATURE, "tolerated_once")
    entry = LedgerEntry(
        signature=SIGNATURE, target="tolerated_once", reproducer="found.kvcase.json"
    )
    ledger_of(folder, entry)
    assert run(monkeypatch, "tolerated_once", "--ledger", "ledger.toml") == 0
    assert f"{SIGNATURE} (" in capsys.readouterr().out

    assert project("tolerated_once") == folder
    assert run(monkeypatch, "tolerated_once", "--ledger", "ledger.toml") == 1
    said = capsys.readouterr().out
    assert f"fixed: {SIGNATURE}, which the ledger tolerates; kv-canary-fuzz ledger update" in said
    summary = json.loads((folder / "run-tolerated_once" / "run.json").read_text())
    assert summary["findings"] == []


def test_what_is_quarantined_is_never_launched(
    project: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """The target would end its process on such a case, and with it the run's worker."""
    folder = project("deadly", deadly=True)
    cases = [case_at(5, index, "hardened") for index in range(160)]
    held = sum(DEADLY in circumstances(case, len(case.steps) - 1) for case in cases)
    assert held > 5
    ledger_of(
        folder,
        LedgerEntry(
            signature="crash: exit status 9", target="deadly", state="quarantined", where=(DEADLY,)
        ),
    )
    assert run(monkeypatch, "deadly", "--ledger", "ledger.toml") == 0
    said = capsys.readouterr().out
    assert f"{held} cases not launched: the ledger quarantines them" in said
    assert "not tried: crash: exit status 9" in said
    summary = json.loads((folder / "run-deadly" / "run.json").read_text())
    assert (summary["cases"], summary["quarantined"]) == (160 - held, held)


def test_a_finding_of_several_circumstances_is_known_by_one_of_them() -> None:
    one = LedgerEntry(signature="write: canary_buf, where x", target="a")
    both = "verify: raised KeyError, not nothing, where x and y"
    target = dataclasses.replace(load_target("scalar"), name="a", domains=frozenset({Domain.VALID}))
    other = dataclasses.replace(target, name="b")
    assert standing_of(Ledger((one,)), target, both, NEGATIVE) == "known"
    assert standing_of(Ledger((one,)), other, both, NEGATIVE) == "undefined"
    fixed = Ledger((replace(one, state="fixed"),))
    assert standing_of(fixed, target, both, NEGATIVE) == "undefined"
    assert not Ledger((one,)).knows("a", "verify: raised KeyError, not nothing, where x")
    assert not Ledger((one,)).knows("a", "verify: raised KeyError, not nothing, where y and z")


def test_which_cases_an_entry_holds_back(tmp_path: Path) -> None:
    named = LedgerEntry(signature=f"x: y, where {DEADLY} and z", target="a", state="quarantined")
    assert circumstances_of(named) == {DEADLY, "z"}
    plain = LedgerEntry(signature="x: y", target="a", state="quarantined", reproducer="a.json")
    case = case_at(5, 1, "valid")
    write_reproducer(
        tmp_path / "a.json",
        Reproducer(case=case, signature="x: y", target="a", reference="torch"),
    )
    other = case_at(5, 2, "valid")
    quarantine = Quarantine(Ledger((plain,)), "a", tmp_path)
    assert [quarantine.holds(c) for c in (case, other)] == [True, False]
    assert not Quarantine(Ledger((plain,)), "b", tmp_path).holds(case)
    tolerated = LedgerEntry(signature=f"x: y, where {DEADLY}", target="a")
    held = replace(tolerated, state="quarantined")
    assert not Quarantine(Ledger((tolerated,)), "a", tmp_path).holds(NEGATIVE)
    assert Quarantine(Ledger((held,)), "a", tmp_path).holds(NEGATIVE)


def reproducer(folder: Path, case: Case, signature: str, target: str, name: str = "found") -> None:
    write_reproducer(
        folder / f"{name}.kvcase.json",
        Reproducer(case=case, signature=signature, target=target, reference="torch"),
    )


def test_replays_follow_the_ledger(pytester: pytest.Pytester) -> None:
    """Quarantined, tolerated but gone, known to nobody, and on a target that is not there."""
    folder = pytester.path
    signature = f"write: slot_run_counter, where {DEADLY}"
    for name in ("deadly", "gone", "other"):
        (folder / f"{name}.py").write_text(TARGET.format(deadly=name == "deadly"))
        reproducer(folder, NEGATIVE, signature, name, name)
    reproducer(folder, NEGATIVE, signature, "sglang", "there")
    ledger_of(
        folder,
        *(
            LedgerEntry(
                signature=signature, target=name, state=state, reproducer=f"{name}.kvcase.json"
            )
            for name, state in (("deadly", "quarantined"), ("gone", "tolerated"))
        ),
    )
    words = ("-p", "no:cacheprovider", "-rs", "--kv-ledger", "ledger.toml")
    files = ("deadly.kvcase.json", "gone.kvcase.json", "other.kvcase.json")
    absent = () if torch.cuda.is_available() else ("there.kvcase.json",)
    result = pytester.runpytest_subprocess(*words, *files, *absent)
    result.assert_outcomes(skipped=1 + len(absent), failed=1, passed=1)
    result.stdout.fnmatch_lines([f"{signature} no longer happens; set its state in the ledger*"])
    result.stdout.fnmatch_lines(["*the ledger quarantines it for deadly"])
