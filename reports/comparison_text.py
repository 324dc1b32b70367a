"""Two runs side by side: what is new, gone, faster, slower."""

from __future__ import annotations

from kv_canary_fuzz.harness.campaign.summary import Summary

NOISE = 0.05
"""Rates that differ by less are called the same."""


def comparison_lines(before: Summary, after: Summary) -> list[str]:
    """A line each for settings, findings, speed and features that changed."""
    lines = []
    for name in ("target", "device"):
        old, new = getattr(before, name), getattr(after, name)
        if old != new:
            lines.append(f"{name}: {old}, then {new}")
    for name in ("reference", "domain", "seed"):
        old, new = getattr(before.settings, name), getattr(after.settings, name)
        if old != new:
            lines.append(f"{name}: {old}, then {new}")
    return [*lines, *_findings(before, after), _speed(before, after), *_features(before, after)]


def _findings(before: Summary, after: Summary) -> list[str]:
    old = {finding.signature: finding for finding in before.findings}
    new = {finding.signature: finding for finding in after.findings}
    lines = [f"new: {new[s].signature} ({new[s].count:,} cases)" for s in new if s not in old]
    lines += [f"gone: {old[s].signature} ({old[s].count:,} cases)" for s in old if s not in new]
    lines += [
        f"in both: {s} ({old[s].count:,} of {before.cases:,} cases, "
        f"then {new[s].count:,} of {after.cases:,})"
        for s in new
        if s in old
    ]
    return lines or ["no findings in either"]


def _speed(before: Summary, after: Summary) -> str:
    rates = f"{before.rate:,.0f} cases a second and core, then {after.rate:,.0f}"
    if not before.rate:
        return f"speed: {rates}"
    change = after.rate / before.rate - 1
    if abs(change) < NOISE:
        return f"as fast: {rates}"
    return f"{'faster' if change > 0 else 'slower'} by {abs(change):.0%}: {rates}"


def _features(before: Summary, after: Summary) -> list[str]:
    lines = []
    met = [name for name in before.never_met if name not in after.never_met]
    lost = [name for name in after.never_met if name not in before.never_met]
    if met:
        lines.append(f"features met now: {', '.join(met)}")
    if lost:
        lines.append(f"features no longer met: {', '.join(lost)}")
    lines.append(f"pairs of features: {before.pairs.total_met:,}, then {after.pairs.total_met:,}")
    return lines
