"""Any two targets compared, without a say of the torch reference, and a third one's opinion."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from kv_canary_fuzz.harness.campaign.campaign import settled
from kv_canary_fuzz.harness.campaign.settings import Settings
from kv_canary_fuzz.harness.cli import main
from kv_canary_fuzz.harness.execution.fuzzer import Fuzzer
from kv_canary_fuzz.harness.judging.opinion import who_stands_alone
from kv_canary_fuzz.harness.judging.verdict import judge
from kv_canary_fuzz.harness.targets.builtin import load_other, load_target
from kv_canary_fuzz.harness.targets.target import Target, TargetError
from kv_canary_fuzz.reference import DOCUMENTED, consts
from kv_canary_fuzz.strategies.prng import case_at

CASES = 160


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def rows_wrong(name: str, *, reverse: bool = False, field: int = 4) -> Target:
    """The scalar model with one field of every row negated, and the new rows in reverse order."""
    model = load_target("scalar")

    def spoil(launcher: Callable[..., None]) -> Callable[..., None]:
        def launch(**arguments: Any) -> None:
            ring, index = (
                getattr(arguments["context"], n)
                for n in ("violation_ring", "violation_write_index")
            )
            before = int(index)
            launcher(**arguments)
            new = ring[max(before, 0) : max(int(index), 0)]
            new[:, field] ^= -1
            if reverse and int(index) <= ring.shape[0]:
                new.copy_(new.flip(0))

        return launch

    return replace(model, name=name, write=spoil(model.write), verify=spoil(model.verify))


def failing(target: Target, reference: Target | None) -> list[str]:
    fuzzer = Fuzzer(target, reference)
    cases = fuzzer.generate(7, range(CASES), "valid")
    return [judge(cases[k], target, reference).signature for k in fuzzer.failing(cases)]


def test_an_error_that_both_share_is_no_difference_between_them() -> None:
    """Rows in another order are matched against the reference's own rows, not against torch's."""
    left, right = rows_wrong("left"), rows_wrong("right", reverse=True)
    assert len(failing(left, None)) > 10
    assert failing(left, right) == []
    assert failing(right, left) == []


def test_one_of_two_targets_that_errs_differently_is_found() -> None:
    left = rows_wrong("left", reverse=True)
    right = rows_wrong("right", field=consts.VIOLATION_FIELD_POSITION)
    signatures = failing(left, right)
    assert len(signatures) > 10
    assert "" not in signatures


def test_a_third_says_who_stands_alone() -> None:
    right, wrong = load_target("scalar"), rows_wrong("wrong")
    other = rows_wrong("other", field=consts.VIOLATION_FIELD_POSITION)
    cases = (case_at(7, index) for index in range(CASES))
    case = next(c for c in cases if not judge(c, wrong).agrees)
    opinions = [
        who_stands_alone(case, wrong, None, right),
        who_stands_alone(case, right, wrong, load_target("emulated")),
        who_stands_alone(case, right, wrong, replace(wrong, name="copy")),
        who_stands_alone(case, right, wrong, other),
        who_stands_alone(case, right, load_target("emulated"), load_target("torch")),
        who_stands_alone(case, wrong, None),
    ]
    assert opinions == [
        "wrong stands alone: scalar agrees with torch",
        "wrong stands alone: emulated agrees with scalar",
        "scalar stands alone: copy agrees with wrong",
        "scalar, wrong and other all differ",
        "torch agrees with both",
        "wrong stands alone: the scalar model agrees with the reference",
    ]


def test_a_third_that_is_a_party_has_no_say() -> None:
    with pytest.raises(TargetError) as error:
        settled(Settings(target="scalar", third="scalar"))
    assert str(error.value) == "scalar cannot be target or reference and the third too"


def test_an_other_one_follows_the_revision_asked_for() -> None:
    assert load_other("torch", DOCUMENTED).contract is DOCUMENTED


def test_a_run_of_three(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    names = ("--target", "planted:hash_shift", "--reference", "emulated", "--third", "torch")
    more = ("--cases", "20", "--seed", "1", "--workers", "1", "--shrink-seconds", "1")
    monkeypatch.setattr(sys, "argv", ["kv-canary-fuzz", "run", *names, *more])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    said = capsys.readouterr().out
    assert "planted:hash_shift stands alone: torch agrees with emulated" in said
    file = next(tmp_path.glob("reports/out/*/findings/*/shrunk.kvcase.json"))
    monkeypatch.setattr(sys, "argv", ["kv-canary-fuzz", "replay", str(file), "--third", "scalar"])
    with pytest.raises(SystemExit):
        main()
    said = capsys.readouterr().out
    assert "planted:hash_shift stands alone: scalar agrees with emulated" in said
