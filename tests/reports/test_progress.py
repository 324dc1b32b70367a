"""What a person sees while a campaign runs."""

from __future__ import annotations

from datetime import UTC, datetime
from io import StringIO
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

from kv_canary_fuzz.harness.atomic_file import write_atomically
from kv_canary_fuzz.harness.campaign.profiles import (
    NIGHTLY_SECONDS,
    PULL_REQUEST_CASES,
    PULL_REQUEST_SEED,
    Profile,
    settings_for,
)
from kv_canary_fuzz.harness.campaign.settings import DomainName, Settings, SettingsError
from kv_canary_fuzz.harness.campaign.tally import MOST_BUCKETS, Pace, Sighting, Tally
from kv_canary_fuzz.harness.campaign.timing import timing_of
from kv_canary_fuzz.harness.pytest_plugin.progress_watch import ProgressWatch
from kv_canary_fuzz.harness.pytest_plugin.pytest_campaign import (
    CampaignPlan,
    Progress,
    total_progress,
)
from kv_canary_fuzz.reports import live
from kv_canary_fuzz.reports.live import Live, PlainLines, live_line
from kv_canary_fuzz.strategies.features.features import ALL_FEATURES

SETTINGS = Settings(target="scalar", domain=DomainName.ALL, cases=1000)
FEATURES = dict.fromkeys(ALL_FEATURES["all"][:-2], 1)
SEEN = Tally(
    cases=400,
    features=FEATURES,
    findings={"write: a": Sighting(3, 7), "verify: b": Sighting(12, 1)},
)


def test_the_line_names_findings_features_and_what_is_left() -> None:
    done, text = Live(SETTINGS).read(SEEN, True)
    assert done == 0.4
    assert text.startswith("400 cases, ")
    assert text.endswith(
        "2 findings (verify: b 12; write: a 3), 2 features not yet met, 600 cases left"
    )
    timed = Live(msgspec.structs.replace(SETTINGS, cases=None, seconds=60))
    assert timed.read(Tally(), False) == (0.0, "starting workers")
    assert timed.read(Tally(cases=1), True)[1].endswith(
        "no findings, 216 features not yet met, 60 s left"
    )


def test_without_a_terminal_there_are_few_lines() -> None:
    console = Console(file=StringIO(), force_terminal=False)
    with live_line(console, Live(SETTINGS)) as show:
        for _ in range(50):
            show(SEEN, True)
    assert console.file.getvalue() == ""  # type: ignore[attr-defined]
    said: list[str] = []
    lines = PlainLines(Live(SETTINGS), said.append, seconds=0)
    lines(SEEN, True)
    assert len(said) == 1


def test_after_the_last_case_nothing_more_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = count(100)
    monkeypatch.setattr(live, "monotonic", lambda: next(clock))
    said: list[str] = []
    lines = PlainLines(Live(SETTINGS), said.append, seconds=0)
    for cases in (500, 1000, 1000, 1000):
        lines(msgspec.structs.replace(SEEN, cases=cases), True)
    assert [line.split(", ")[0] for line in said] == ["500 cases", "1,000 cases"]


def test_a_finding_is_told_once() -> None:
    said: list[str] = []
    console = Console(file=StringIO(), force_terminal=False)
    with live_line(console, Live(SETTINGS), said.append) as show:
        show(SEEN, True)
        show(SEEN, True)
    assert said == ["found write: a, case 7", "found verify: b, case 1"]


def test_under_pytest_the_totals_are_of_all_workers(tmp_path: Path) -> None:
    plan = CampaignPlan(SETTINGS, str(tmp_path))
    plan.enter()
    for index in (0, 3):
        seen = msgspec.json.encode(Progress(SETTINGS, SEEN))
        write_atomically(plan.folder.progress(index), seen)
    write_atomically(plan.folder.shard(3), msgspec.json.encode(Tally(cases=500)))
    progress = total_progress(plan.folder)
    assert progress is not None
    assert progress.tally.cases == 900
    said: list[str] = []
    ProgressWatch(plan, said.append, verbose=True, seconds=0).look()
    assert said[0].startswith("900 cases, ")
    assert said[1:] == ["found write: a, case 7", "found verify: b, case 1"]
    plan.leave()


def test_profiles() -> None:
    plain = settings_for(Profile.PULL_REQUEST)
    assert (plain.seed, plain.cases, plain.seconds) == (
        *(PULL_REQUEST_SEED, PULL_REQUEST_CASES),
        None,
    )
    nightly = settings_for(Profile.NIGHTLY)
    assert (nightly.cases, nightly.seconds) == (None, NIGHTLY_SECONDS)
    assert (nightly.corpus, nightly.ledger) == ("reports/corpus", "reports/ledger.toml")
    assert nightly.seed != settings_for(Profile.NIGHTLY).seed
    short = settings_for(Profile.NIGHTLY, seconds=5, corpus=Path("mine"))
    assert (short.seconds, short.corpus) == (5, "mine")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"cases": 0}, "cases must be at least 1, got 0"),
        ({"seconds": 0.0}, "seconds must be more than 0, got 0"),
        ({"seconds": float("nan")}, "seconds must be more than 0, got nan"),
        ({"seed": -1}, f"the seed must be 0 to {2**64 - 1}, got -1"),
        ({"seed": 2**64}, f"the seed must be 0 to {2**64 - 1}, got {2**64}"),
        ({"shrink_seconds": -1.0}, "shrink-seconds must not be negative, got -1"),
    ],
)
def test_numbers_that_make_no_campaign(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError) as refused:
        settings_for(Profile.PLAIN, **asked)
    assert str(refused.value) == message


def test_there_are_as_many_batches_as_cases_need() -> None:
    assert SETTINGS.batches == 8
    assert msgspec.structs.replace(SETTINGS, cases=128, replayed=1).batches == 2
    assert settings_for(Profile.PLAIN, seconds=1).batches > 10**9


def test_a_pace_keeps_every_case_in_a_bounded_number_of_points() -> None:
    pace = Pace(began=100.0)
    for batch in range(1, 5001):
        pace.add(128, 100.0 + batch * 0.7)
    assert len(pace.cases) <= MOST_BUCKETS
    assert round(sum(pace.cases)) == 5000 * 128
    rates = [count / pace.bucket for count in pace.cases[:-1]]
    assert max(rates) < 1.01 * min(rates)
    [worker] = timing_of(Tally(paces=[pace]), datetime.now(UTC)).workers
    assert worker.cases == 5000 * 128
