"""What a campaign covered, and what follows from finding nothing there, in words."""

from __future__ import annotations

from kv_canary_fuzz.harness.campaign.coverage import family
from kv_canary_fuzz.harness.campaign.summary import Summary

FEW = 3
"""Pairs that are named; ``run.json`` has them all."""


def pairs_line(summary: Summary) -> str:
    """How many pairs of features never met in one case, and those of the commonest features."""
    count = sum(map(len, summary.never_together.values()))
    named = "; ".join(f"{first} with {second}" for first, second in commonest_apart(summary))
    text = f"{count:,} pairs of features never met, and not every pair can"
    return f"{text}; of the commonest: {named}" if named else text


def commonest_apart(summary: Summary) -> list[tuple[str, str]]:
    """The pairs of different families that never met though their features are common.

    Values of one family exclude each other more often than not.
    """
    counts = summary.features
    apart = (
        (first, second)
        for first, others in summary.never_together.items()
        for second in others
        if family(first) != family(second)
    )
    return sorted(apart, key=lambda pair: (-counts[pair[0]] * counts[pair[1]], pair))[:FEW]


def bounds_line(summary: Summary) -> str:
    """How rarely cases fail, at most, where nothing was found; empty where that is not known."""
    bounds = summary.bounds
    if bounds is None:
        return ""
    text = f"with 95 % confidence fewer than {bounds.cases:.2g} of such cases fail"
    weakest = bounds.weakest
    if weakest is None:
        return text
    return f"{text}, and of those with {weakest}, the rarest, {bounds.features[weakest]:.2g}"
