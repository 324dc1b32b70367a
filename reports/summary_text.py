"""The end of a campaign in words."""

from __future__ import annotations

from kv_canary_fuzz.harness.summary import Finding, Summary


def summary_lines(summary: Summary, folder: str) -> list[str]:
    """What ran, what was found, how to replay it, and what was never generated."""
    settings = summary.settings
    lines = [
        f"{settings.target} against {settings.reference}, domain {settings.domain}, "
        f"seed {settings.seed}: {summary.cases:,} cases, {summary.rate:,.0f} a second and core"
    ]
    if summary.never_met:
        lines.append(f"features never met: {', '.join(summary.never_met)}")
    else:
        lines.append(f"all {len(summary.features)} features met")
    if summary.findings:
        count = len(summary.findings)
        lines.append(f"{count} finding{'' if count == 1 else 's'}:")
        for finding in summary.findings:
            lines += _finding_lines(finding)
    elif summary.cases:
        lines.append(
            f"no findings; with 95 % confidence fewer than {3 / summary.cases:.2g} "
            "of such cases fail"
        )
    lines.append(f"run folder: {folder}")
    return lines


def _finding_lines(finding: Finding) -> list[str]:
    lines = [
        f"  {finding.signature} ({finding.count:,} cases, first at index {finding.first_index})"
    ]
    lines += [f"    {line}" for line in finding.lines[:2]]
    if finding.alone:
        lines.append(f"    {finding.alone}")
    lines.append(f"    replay: kv-canary-fuzz replay {finding.file}")
    return lines
