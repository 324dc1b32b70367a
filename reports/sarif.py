"""The findings of a run as SARIF 2.1.0, for code-scanning views."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from kv_canary_fuzz.harness.campaign.run_folder import slug
from kv_canary_fuzz.harness.campaign.summary import Finding, Summary

SCHEMA: Final = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
SOURCE = "kernels/csrc"

_LINE = re.compile(r"([\w./+-]+\.(?:cuh|cu|cpp|h|hpp)):(\d+)")


def sarif_of(summary: Summary) -> dict[str, Any]:
    """One result for each finding; what the ledger knows is a suppressed one."""
    rules = {_rule_id(finding): _rule(finding) for finding in summary.findings}
    driver = {
        "name": "kv-canary-fuzz",
        "version": summary.versions.get("kv-canary-fuzz", ""),
        "rules": list(rules.values()),
    }
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                "automationDetails": {"id": f"kv-canary-fuzz/{summary.target}/"},
                "columnKind": "utf16CodeUnits",
                "results": [_result(summary, finding) for finding in summary.findings],
            }
        ],
    }


def source_line(texts: Iterable[str]) -> tuple[str, int] | None:
    """The first place in a source file that ``texts`` name, as a sanitizer's report does.

    A file of our CUDA source is given as a path from the top of the repository.
    """
    for text in texts:
        for name, line in _LINE.findall(text):
            if int(line) > 0:
                _, within, inside = name.rpartition("csrc/")
                if not within and name.endswith((".cu", ".cuh")):  # builds know files by name alone
                    within, inside = "/", name.rpartition("/")[2]
                return (f"{SOURCE}/{inside}" if within else name.lstrip("/")), int(line)
    return None


def _rule_id(finding: Finding) -> str:
    return slug(finding.signature).rpartition("-")[0]


def _rule(finding: Finding) -> dict[str, Any]:
    meaning = finding.explanation.meaning if finding.explanation else finding.signature
    return {
        "id": _rule_id(finding),
        "name": finding.signature,
        "shortDescription": {"text": finding.signature},
        "fullDescription": {"text": meaning},
        "defaultConfiguration": {"level": "error"},
    }


def _result(summary: Summary, finding: Finding) -> dict[str, Any]:
    headline = finding.explanation.headline if finding.explanation else finding.signature
    lines = [headline, *finding.lines, f"Replay: {finding.replay}"]
    result: dict[str, Any] = {
        "ruleId": _rule_id(finding),
        "level": "error" if finding.fails else "note",
        "message": {"text": "\n".join(lines)},
        "partialFingerprints": {"signature/v1": f"{summary.target} {finding.signature}"},
        "occurrenceCount": max(1, finding.count),
        "locations": [_location(finding)],
    }
    if not finding.fails:
        result["suppressions"] = [{"kind": "external", "justification": finding.title}]
    return result


def _location(finding: Finding) -> dict[str, Any]:
    """The line that a sanitizer gave, else the file that replays the finding."""
    note = finding.reproducer.note if finding.reproducer else ""
    name, line = source_line((*finding.lines, note)) or (finding.file or "run.json", 1)
    uri = Path(name).as_uri() if name.startswith("/") else quote(name)
    return {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": line}}}
