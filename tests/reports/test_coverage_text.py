"""Pairs of features that never met, and what follows from finding nothing."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from kv_canary_fuzz.harness.campaign.confidence import Bounds, failure_bounds
from kv_canary_fuzz.harness.campaign.coverage import NAMES, never_together
from kv_canary_fuzz.harness.campaign.summary import Summary
from kv_canary_fuzz.reports.coverage_text import bounds_line, commonest_apart, pairs_line
from kv_canary_fuzz.reports.markdown import markdown
from kv_canary_fuzz.reports.page import report_html
from kv_canary_fuzz.reports.summary_text import summary_lines


def met(*groups: tuple[str, ...]) -> np.ndarray:
    """The matrix of pairs after cases with these features."""
    pairs = np.zeros((len(NAMES), len(NAMES)), bool)
    for group in groups:
        present = [NAMES.index(name) for name in group]
        pairs[np.ix_(present, present)] = True
    return pairs


def test_each_pair_that_never_met_is_named_once_and_features_that_never_occurred_are_not() -> None:
    pairs = met(("sources:0", "mode:ALL"), ("sources:1", "mode:ALL", "swap"), ("ring:none",))
    assert never_together(pairs, NAMES) == {
        "sources:0": ("sources:1", "ring:none", "swap"),
        "sources:1": ("ring:none",),
        "mode:ALL": ("ring:none",),
        "ring:none": ("swap",),
    }
    assert never_together(pairs, ["sources:0", "sources:1", "swap"]) == {
        "sources:0": ("sources:1", "swap"),
    }


def test_three_over_n() -> None:
    bounds = failure_bounds(6000, {"swap": 300, "mode:ALL": 2, "ring:none": 0})
    assert bounds == Bounds(cases=0.0005, features={"swap": 0.01, "mode:ALL": 1.0})
    assert bounds.weakest == "mode:ALL"
    assert failure_bounds(0, {}) is None


@pytest.fixture
def clean(run_summary: Summary) -> Summary:
    """A run without findings."""
    return replace(
        run_summary,
        findings=(),
        features={"sources:0": 40, "sources:1": 60, "swap": 3, "mode:ALL": 50},
        never_together={"sources:0": ("sources:1", "swap"), "sources:1": ("swap", "mode:ALL")},
        bounds=Bounds(cases=0.02, features={"sources:0": 0.075, "swap": 1.0}),
    )


def test_the_pairs_of_the_commonest_features_are_named(clean: Summary) -> None:
    assert commonest_apart(clean) == [
        ("sources:1", "mode:ALL"),
        ("sources:1", "swap"),
        ("sources:0", "swap"),
    ]
    assert pairs_line(clean) == (
        "4 pairs of features never met, and not every pair can; of the commonest: "
        "sources:1 with mode:ALL; sources:1 with swap; sources:0 with swap"
    )


def test_a_clean_run_says_how_rarely_cases_fail(clean: Summary) -> None:
    line = bounds_line(clean)
    assert line == (
        "with 95 % confidence fewer than 0.02 of such cases fail, and of those with swap, "
        "the rarest, 1"
    )
    for text in ("\n".join(summary_lines(clean, "out")), markdown(clean), report_html(clean)):
        assert line in text
        assert pairs_line(clean) in text
    assert "(&lt;&nbsp;0.075)" in report_html(clean)


def test_a_run_with_findings_bounds_nothing(run_summary: Summary) -> None:
    assert run_summary.findings
    assert run_summary.bounds is None
    assert bounds_line(run_summary) == ""
    assert "95 %" not in "\n".join(summary_lines(run_summary, "out"))
    assert sum(map(len, run_summary.never_together.values())) > 0


def test_pairs_met_and_pairs_apart_are_all_pairs_of_features_that_occurred(
    run_summary: Summary,
) -> None:
    occurred = len(NAMES) - len(run_summary.never_met)
    apart = sum(map(len, run_summary.never_together.values()))
    assert run_summary.pairs.total_met + apart == occurred * (occurred - 1) // 2
