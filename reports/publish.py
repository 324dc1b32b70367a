"""Everything that is made of a run for people and for other programs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from kv_canary_fuzz.harness.atomic_file import append, noting, write_atomically
from kv_canary_fuzz.harness.campaign.run_folder import RunFolder
from kv_canary_fuzz.harness.campaign.summary import Summary

from .markdown import markdown
from .page import report_html
from .sarif import sarif_of

STEP_SUMMARY = "GITHUB_STEP_SUMMARY"


def render(folder: RunFolder, summary: Summary) -> None:
    """Write the report and the SARIF file beside ``run.json``. Raises OSError."""
    for write in _writers(folder):
        write(summary)


def publish(folder: RunFolder, summary: Summary) -> Summary:
    """Render, and tell the CI job that this is, where it is one.

    The summary comes back with a line for each file that could not be written.
    """
    for write in (*_writers(folder), _tell_job):
        faults: list[str] = []
        with noting(faults):
            write(summary)
        summary = replace(summary, unwritten=(*summary.unwritten, *faults))
    return summary


def _writers(folder: RunFolder) -> tuple[Callable[[Summary], None], ...]:
    def report(summary: Summary) -> None:
        write_atomically(folder.report, report_html(summary).encode())

    def sarif(summary: Summary) -> None:
        write_atomically(folder.sarif, (json.dumps(sarif_of(summary), indent=1) + "\n").encode())

    return report, sarif


def _tell_job(summary: Summary) -> None:
    path = os.environ.get(STEP_SUMMARY)
    if path:
        append(Path(path), (markdown(summary) + "\n").encode())
