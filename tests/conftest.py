"""What tests of several folders use: one small run with findings, and a target that is wrong."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from kv_canary_fuzz.harness.campaign.campaign import run_campaign
from kv_canary_fuzz.harness.campaign.profiles import Profile, settings_for
from kv_canary_fuzz.harness.campaign.summary import Summary, read_summary

TARGET = "planted:skip_advances_chain"


@pytest.fixture(scope="session")
def miscounting() -> str:
    """The text of a module: a target that miscounts where there are two sources."""
    return (Path(__file__).parent / "miscounting_target.py").read_text()


@pytest.fixture(scope="session")
def run_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of 1,280 cases of a planted bug on two workers."""
    root = tmp_path_factory.mktemp("report") / "run"
    settings = settings_for(Profile.PLAIN, target=TARGET, seed=7, cases=1280, shrink_seconds=20)
    run_campaign(settings, root, 2, Console(file=StringIO()))
    return root


@pytest.fixture(scope="session")
def run_summary(run_root: Path) -> Summary:
    return read_summary(run_root)
