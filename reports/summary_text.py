"""The end of a campaign in words."""

from __future__ import annotations

from collections.abc import Sequence

from kv_canary_fuzz.harness.campaign.summary import Finding, LedgerNote, Summary
from kv_canary_fuzz.harness.findings.reproducer import encode_reproducer

from .coverage_text import bounds_line, pairs_line
from .source_text import source_lines

MOST_NAMES = 12

_STANDINGS = {
    "new": "",
    "known": ", known",
    "back": ", back",
    "undefined": ", undefined behaviour: the target claims nothing there",
}


def summary_lines(summary: Summary, folder: str) -> list[str]:
    """What ran, what was found, how to replay it, and what was never generated."""
    settings = summary.settings
    lines = [
        f"{summary.target} against {settings.reference}, domain {settings.domain}, "
        f"seed {settings.seed}: {summary.cases:,} cases, {summary.rate:,.0f} a second and core"
    ]
    if summary.corpus is not None:
        use = summary.corpus
        lines.append(f"corpus {use.folder}: {use.replayed:,} replayed, {use.added:,} added")
    lines += [
        f"a worker process was killed over cases {lost.first} to {lost.first + lost.count - 1}; "
        "they were run again"
        for lost in summary.lost
    ]
    if summary.never_met:
        lines.append(f"features never met: {_names(summary.never_met)}")
    else:
        lines.append(f"all {len(summary.features)} features met")
    if summary.never_together:
        lines.append(pairs_line(summary))
    if summary.source is not None:
        lines += source_lines(summary.source)
    if summary.findings:
        lines.append(f"{_count_text(summary)}:")
        for finding in summary.findings:
            lines += _finding_lines(finding)
    elif summary.bounds is not None:
        lines.append(f"no findings; {bounds_line(summary)}")
    lines += [_note_line(note) for note in summary.ledger if note.outcome != "met"]
    if summary.quarantined:
        lines.append(f"{summary.quarantined:,} cases not launched: the ledger quarantines them")
    if summary.outgrown:
        lines.append(
            f"{summary.outgrown:,} processes of the target replaced: "
            "their memory grew from case to case"
        )
    if summary.held_back:
        why = "they have what killed a process before"
        lines.append(f"{summary.held_back:,} cases not launched: {why}")
    lines += [f"not written: {line}" for line in summary.unwritten]
    report = f"{folder}/report.html"
    if not any(line.startswith(f"{report}: ") for line in summary.unwritten):
        lines.append(f"report: {report}")
    return [*lines, f"run folder: {folder}"]


def _note_line(note: LedgerNote) -> str:
    line = f"{note.outcome}: {note.signature}"
    if note.outcome == "fixed":
        return f"{line}, which the ledger tolerates; kv-canary-fuzz ledger update RUN marks it"
    return line


def _names(names: Sequence[str]) -> str:
    """The first few, and how many more there are."""
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _count_text(summary: Summary) -> str:
    count = len(summary.findings)
    text = f"{count} finding{'' if count == 1 else 's'}"
    return f"{text}, {len(summary.failing)} new" if summary.settings.ledger else text


def _finding_lines(finding: Finding) -> list[str]:
    standing = _STANDINGS[finding.standing]
    first = f"first at index {finding.first_index}" if finding.first_index >= 0 else "in the corpus"
    lines = [f"  {finding.signature} ({finding.count:,} cases, {first}{standing})"]
    lines += [f"    {line}" for line in finding.lines[:2]]
    if finding.alone:
        lines.append(f"    {finding.alone}")
    if finding.file or finding.reproducer is None:
        return [*lines, f"    replay: {finding.replay}"]
    text = encode_reproducer(finding.reproducer).decode().splitlines()
    lines.append("    no file could be written; saved as NAME.kvcase.json, this replays it:")
    return lines + text
