"""Everything that is made of a run for people and for other programs."""

from __future__ import annotations

import json
import os
from pathlib import Path

from kv_canary_fuzz.harness.atomic_file import write_atomically
from kv_canary_fuzz.harness.campaign.run_folder import RunFolder
from kv_canary_fuzz.harness.campaign.summary import Summary

from .markdown import markdown
from .page import report_html
from .sarif import sarif_of

STEP_SUMMARY = "GITHUB_STEP_SUMMARY"


def render(folder: RunFolder, summary: Summary) -> None:
    """Write the report and the SARIF file beside ``run.json``. Raises OSError."""
    write_atomically(folder.report, report_html(summary).encode())
    write_atomically(folder.sarif, (json.dumps(sarif_of(summary), indent=1) + "\n").encode())


def publish(folder: RunFolder, summary: Summary) -> None:
    """Render, and tell the CI job that this is, where it is one. Raises OSError."""
    render(folder, summary)
    step_summary = os.environ.get(STEP_SUMMARY)
    if step_summary:
        with Path(step_summary).open("a", encoding="utf-8") as file:
            file.write(markdown(summary) + "\n")
