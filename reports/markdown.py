"""The end of a run in Markdown, for the page of a CI job."""

from __future__ import annotations

import re

from kv_canary_fuzz.harness.campaign.summary import Finding, Summary

from .coverage_text import bounds_line, pairs_line
from .source_text import place_text, share_text


def markdown(summary: Summary) -> str:
    """A heading, what was found and how to replay it, and what was covered."""
    new = len(summary.failing)
    outcome = f"{new} new finding{'' if new == 1 else 's'}" if new else "nothing new"
    lines = [
        f"### kv-canary-fuzz: {_code(summary.target)} against "
        f"{_code(summary.settings.reference)}: {outcome}",
        "",
        f"{summary.cases:,} cases, {summary.rate:,.0f} a second and core, "
        f"seed {summary.settings.seed}, domain {summary.settings.domain}"
        + (", interrupted" if summary.interrupted else ""),
        "",
    ]
    if summary.unwritten:
        lines += [f"Not whole: {_cell(summary.shortcoming)}", ""]
    if summary.findings:
        lines += ["| finding | standing | cases | what is wrong | replay |"]
        lines += ["| --- | --- | ---: | --- | --- |"]
        lines += [_row(finding) for finding in summary.findings]
        lines.append("")
    for note in summary.ledger:
        if note.outcome == "fixed":
            lines += [f"Fixed: {_code(note.signature)} no longer happens.", ""]
    if summary.never_met:
        lines += [f"Features never met: {', '.join(map(_code, summary.never_met))}", ""]
    if summary.never_together:
        lines += [_cell(pairs_line(summary)), ""]
    if summary.bounds is not None:
        lines += [f"No findings; {bounds_line(summary)}.", ""]
    if summary.source is not None:
        lines += [f"CUDA source: {share_text(summary.source.total)}", ""]
        lines += [f"- not reached: {_code(place_text(m))}" for m in summary.source.unreached]
    return "\n".join(lines)


def _row(finding: Finding) -> str:
    headline = finding.explanation.headline if finding.explanation else finding.signature
    cells = (
        _code(finding.signature),
        finding.standing,
        f"{finding.count:,}",
        _cell(headline),
        _code(finding.replay),
    )
    return f"| {' | '.join(cells)} |"


def _code(text: str) -> str:
    return f"`{_cell(text).replace('`', chr(39))}`"


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|").replace("<", "&lt;")
