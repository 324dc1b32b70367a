"""Coverage of the CUDA source in campaigns: counted by all workers, shown, and listed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import msgspec
import pytest

from kv_canary_fuzz.harness.campaign.source_coverage import counting, read_source_coverage
from kv_canary_fuzz.harness.campaign.summary import Summary, read_summary, run_schema
from kv_canary_fuzz.harness.targets.builtin import COVERAGE_FOLDER, countable_target
from kv_canary_fuzz.harness.targets.target import TargetError
from kv_canary_fuzz.reports.markdown import markdown
from kv_canary_fuzz.reports.page import report_html
from kv_canary_fuzz.reports.source_text import place_text, source_lines
from kv_canary_fuzz.reports.summary_text import summary_lines

COMMAND = [sys.executable, "-c", "from kv_canary_fuzz.harness.cli import main; main()", "run"]


def run(folder: Path, *words: str) -> Summary:
    done = subprocess.run(
        [*COMMAND, "--coverage", "--seed", "5", "--workers", "2", "--out", str(folder), *words],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return read_summary(folder)


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> Summary:
    """A short run of few cases."""
    return run(tmp_path_factory.mktemp("refused"), "--cases", "256", "--domain", "refused")


def test_a_short_run_lists_what_it_did_not_reach(refused: Summary) -> None:
    source = refused.source
    assert source is not None
    total = source.total
    assert [part.name for part in source.kernels] == [
        f"kv_canary_{name}"
        for name in ("write_folded", "write_plain", "verify_folded", "verify_heads", "verify_plain")
    ]
    assert sum(part.lines for part in source.files) == total.lines
    assert sum(part.branches_reached for part in source.files) == total.branches_reached
    assert 0 < total.branches_reached < total.branches
    lines = [missed for missed in source.unreached if not missed.branch]
    assert len(lines) == total.lines - total.lines_reached
    texts = source_lines(source)
    assert texts[0].startswith("CUDA source: ")
    assert f"  not reached: {place_text(source.unreached[0])}" in texts
    assert len(texts) == 1 + len(source.kernels) + len(source.files) + len(source.unreached)


def test_every_report_shows_it(refused: Summary) -> None:
    source = refused.source
    assert source is not None
    [first, *_] = source_lines(source)
    place = place_text(source.unreached[0])
    assert first in summary_lines(refused, "folder")
    assert first in markdown(refused)
    assert place in markdown(refused)
    page = report_html(refused)
    assert first.removeprefix("CUDA source: ") in page
    assert page.count("not reached: <code>") == len(source.unreached)
    jsonschema.validate(msgspec.json.decode(msgspec.json.encode(refused)), run_schema())


def test_a_second_run_in_one_folder_counts_anew(tmp_path: Path) -> None:
    stale = tmp_path / "source-counts" / "kv_canary_write_plain.gcda"
    stale.parent.mkdir()
    stale.write_bytes(b"what an earlier run left")
    with counting(stale.parent):
        assert os.environ[COVERAGE_FOLDER] == str(stale.parent)
        assert not stale.exists()
    assert COVERAGE_FOLDER not in os.environ
    assert read_source_coverage(stale.parent).total.lines == 0


def test_targets_that_cannot_count_are_refused() -> None:
    assert countable_target("auto") == "emulated"
    assert countable_target("planted:mix_order") == "planted:mix_order"
    with pytest.raises(TargetError, match="counted where it runs on the CPU, not on 'torch'"):
        countable_target("torch")


@pytest.mark.nightly
def test_workers_of_pytest_count_together(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_campaign(kv_shard):\n    kv_shard.run()\n")
    result = pytester.runpytest_subprocess(
        *("-p", "no:cacheprovider", "-n2", "--kv-coverage", "--kv-cases=1024", "--kv-seed=4"),
        *("--kv-out=run", "--kv-domain=valid"),
        timeout=120,
    )
    result.assert_outcomes(passed=8)
    result.stdout.fnmatch_lines(["CUDA source: * lines (*), * branches (*)"])
    source = read_summary(pytester.path / "run").source
    assert source is not None
    assert all(part.lines_reached > 0.9 * part.lines for part in source.kernels)


@pytest.mark.nightly
def test_a_minute_reaches_every_line_and_branch(tmp_path: Path) -> None:
    source = run(tmp_path, "--seconds", "60").source
    assert source is not None
    assert source.unreached == ()
