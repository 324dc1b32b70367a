"""A target run where it claims nothing: what happens is named, and the run does not fail."""

from __future__ import annotations

from datetime import date
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from kv_canary_fuzz.harness.campaign.campaign import run_campaign
from kv_canary_fuzz.harness.campaign.profiles import Profile, settings_for
from kv_canary_fuzz.harness.campaign.settings import DomainName
from kv_canary_fuzz.harness.findings.ledger import read_ledger
from kv_canary_fuzz.harness.findings.standing import update_ledger
from kv_canary_fuzz.reference import DOCUMENTED
from kv_canary_fuzz.strategies.circumstances import circumstances
from kv_canary_fuzz.strategies.prng import case_at

MODEST = """
from kv_canary_fuzz.reference import scalar_model

DOMAINS = ["valid"]
launch_canary_verify_kernel = scalar_model.launch_canary_verify_kernel


def launch_canary_write_kernel(**arguments):
    if int(arguments["plan"].write_num_valid_reqs[0]) < 0:
        raise IndexError("a negative count")
    scalar_model.launch_canary_write_kernel(**arguments)
"""


DEADLY = """
import os

from kv_canary_fuzz.reference import scalar_model

DOMAINS = ["valid"]
launch_canary_verify_kernel = scalar_model.launch_canary_verify_kernel


def launch_canary_write_kernel(**arguments):
    if int(arguments["plan"].write_num_valid_reqs[0]) < 0:
        os.abort()
    scalar_model.launch_canary_write_kernel(**arguments)
"""


def test_what_kills_is_found_once_and_held_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deadly_where_open.py").write_text(DEADLY)
    monkeypatch.chdir(tmp_path)
    settings = settings_for(
        Profile.PLAIN,
        target="deadly_where_open",
        domain=DomainName.HARDENED,
        seed=3,
        cases=320,
        shrink_seconds=0.5,
    )
    text = StringIO()
    summary = run_campaign(settings, tmp_path / "run", 1, Console(file=text, width=200))
    [finding] = summary.findings
    assert finding.signature == "crash: abort in write, where requests negative"
    batch = summary.settings.batch
    cases = [case_at(3, index, "hardened", DOCUMENTED) for index in range(320)]
    deadly = [
        number
        for number, case in enumerate(cases)
        if "requests negative" in circumstances(case, len(case.steps) - 1)
    ]
    first = deadly[0] // batch
    held = [number for number in deadly if number // batch > first]
    assert len(held) > 10
    assert finding.count == sum(number // batch == first for number in deadly)
    assert (summary.held_back, summary.cases) == (len(held), 320 - len(held))
    assert f"{len(held)} cases not launched: they have what killed a process before" in (
        text.getvalue()
    )
    update_ledger(tmp_path / "ledger.toml", summary, date(2026, 11, 30))
    [entry] = read_ledger(tmp_path / "ledger.toml").findings
    assert entry.state == "quarantined"


def test_undefined_behaviour_found_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "modest.py").write_text(MODEST)
    monkeypatch.chdir(tmp_path)
    settings = settings_for(
        Profile.PLAIN, target="modest", domain=DomainName.HARDENED, seed=3, cases=128
    )
    text = StringIO()
    summary = run_campaign(settings, tmp_path / "run", 1, Console(file=text, width=200))
    [finding] = summary.findings
    assert finding.signature == "write: raised IndexError, not nothing, where requests negative"
    assert finding.standing == "undefined"
    assert summary.failing == ()
    assert "undefined behaviour: the target claims nothing there" in text.getvalue()
