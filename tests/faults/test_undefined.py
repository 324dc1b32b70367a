"""A target run where it claims nothing: what happens is named, and the run does not fail."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from kv_canary_fuzz.harness.campaign.campaign import run_campaign
from kv_canary_fuzz.harness.campaign.profiles import Profile, settings_for
from kv_canary_fuzz.harness.campaign.settings import DomainName

MODEST = """
from kv_canary_fuzz.reference import scalar_model

DOMAINS = ["valid"]
launch_canary_verify_kernel = scalar_model.launch_canary_verify_kernel


def launch_canary_write_kernel(**arguments):
    if int(arguments["plan"].write_num_valid_reqs[0]) < 0:
        raise IndexError("a negative count")
    scalar_model.launch_canary_write_kernel(**arguments)
"""


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
