"""Files that are whole or absent: full disks, killed writers, what they leave."""

from __future__ import annotations

import errno
import fcntl
import html
import os
import random
import select
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from kv_canary_fuzz.harness.atomic_file import (
    TEMPORARY_PREFIX,
    TEMPORARY_SUFFIX,
    append,
    check_writable,
    sweep,
    write_atomically,
)
from kv_canary_fuzz.harness.campaign.corpus import add_to_corpus
from kv_canary_fuzz.harness.campaign.run_folder import InFlight, RunFolder
from kv_canary_fuzz.harness.campaign.summary import Summary, write_summary
from kv_canary_fuzz.harness.findings.ledger import Ledger, LedgerEntry, write_ledger
from kv_canary_fuzz.harness.findings.reproducer import (
    Reproducer,
    encode_reproducer,
    write_reproducer,
)
from kv_canary_fuzz.harness.findings.standing import update_ledger
from kv_canary_fuzz.reports.markdown import markdown
from kv_canary_fuzz.reports.page import report_html
from kv_canary_fuzz.reports.publish import publish, render
from kv_canary_fuzz.reports.sarif import sarif_of
from kv_canary_fuzz.reports.summary_text import summary_lines
from kv_canary_fuzz.strategies.case import Case
from kv_canary_fuzz.strategies.prng import case_at

SEED = int(os.environ.get("KV_FAULT_SEED", "1"))
FOUND = Reproducer(signature="write: a", target="t", reference="torch", case=Case(num_slots=1))
ENTRY = LedgerEntry(signature="a", target="t")


def next_case(corpus: Path) -> Case:
    return case_at(1, len(list(corpus.iterdir())))


WRITERS: dict[str, Callable[[Path, Summary], Any]] = {
    "reproducer": lambda root, _: write_reproducer(root / "a.kvcase.json", FOUND),
    "recorded case": lambda root, _: RunFolder(root).record(FOUND),
    "batch in flight": lambda root, _: RunFolder(root).mark_in_flight(InFlight(0, 128)),
    "run.json": lambda root, run: write_summary(root / "run.json", run),
    "report": lambda root, run: render(RunFolder(root), run),
    "ledger": lambda root, _: write_ledger(root / "ledger.toml", Ledger((ENTRY,))),
    "ledger's reproducers": lambda root, run: update_ledger(root / "l", run, date(2026, 1, 2)),
    "corpus": lambda root, _: add_to_corpus(root, [next_case(root)], lambda _: frozenset()),
    "job summary": lambda root, _: append(root / "summary.md", b"# A run of kv-canary-fuzz\n"),
    "probe": lambda root, _: check_writable(root / "anything"),
}


def files(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }


@pytest.mark.parametrize("name", WRITERS)
def test_a_disk_that_fills_up_leaves_what_was_there(
    name: str, tmp_path: Path, run_summary: Summary, files_of_at_most: Callable[[int], Any]
) -> None:
    """No torn file, no leftover, and an error that names the file."""
    write = WRITERS[name]
    write(tmp_path, run_summary)
    before = files(tmp_path)
    with files_of_at_most(10), pytest.raises(OSError, match="File too large") as full:
        write(tmp_path, run_summary)
    assert full.value.errno == errno.EFBIG
    assert full.value.filename.startswith(str(tmp_path))
    after = files(tmp_path)
    if name == "job summary":  # it is added to, by whoever comes
        assert after.pop("summary.md").startswith(before.pop("summary.md"))
    assert after == before


def test_what_cannot_be_published_is_named(
    tmp_path: Path,
    run_summary: Summary,
    files_of_at_most: Callable[[int], Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    with files_of_at_most(10):
        summary = publish(RunFolder(tmp_path), run_summary)
    names = ("report.html", "findings.sarif", "summary.md")
    assert summary.unwritten == tuple(f"{tmp_path / name}: File too large" for name in names)
    assert summary.shortcoming == (
        f"{tmp_path / 'report.html'}: File too large (2 more like this): the run is not whole; "
        "run it again with --seed 7 where there is room to write"
    )


def test_a_finding_without_a_file_is_in_every_report(run_summary: Summary) -> None:
    [finding] = run_summary.findings
    lost = "run/findings/a/shrunk.kvcase.json: No space left on device"
    run = replace(run_summary, findings=(replace(finding, file=""),), unwritten=(lost,))
    why = "no file could be written; its text is in the run's output"
    assert why in markdown(run)
    assert run.shortcoming in html.unescape(report_html(run))
    assert why in html.unescape(report_html(run))
    [result] = sarif_of(run)["runs"][0]["results"]
    assert result["message"]["text"].endswith(f"Replay: {why}")
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "run.json"
    lines = summary_lines(run, "run")
    assert finding.reproducer is not None
    assert encode_reproducer(finding.reproducer).decode() in "\n".join(lines)
    assert f"not written: {lost}" in lines


@pytest.mark.parametrize("path", ["file/below", "/proc/self/nothing"])
def test_where_nothing_can_be_written_an_error_says_so(path: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for write in (check_writable, lambda path: write_atomically(path, b"new")):
        with pytest.raises(OSError) as refused:  # noqa: PT011
            write(tmp_path / path)
        assert refused.value.filename == str(tmp_path / path)


def test_a_probe_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"old")
    check_writable(tmp_path / "old")
    check_writable(tmp_path / "new")
    assert files(tmp_path) == {"old": b"old"}


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    write_atomically(path, b"new")
    assert os.read(reader, 10) == b"new"
    os.close(reader)
    assert path.is_fifo()


SIZE = 2_000_000
WRITER = """
import sys
from pathlib import Path
from kv_canary_fuzz.harness.atomic_file import write_atomically

path, count, size = Path(sys.argv[1]), *map(int, sys.argv[2:])
for number in range(count):
    write_atomically(path, bytes([number % 250]) * size, durable=False)
    if number == 0:
        print("at work", flush=True)
"""


def writer(path: Path, count: int) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-c", WRITER, str(path), str(count), str(SIZE)]
    return subprocess.Popen(words, stdout=subprocess.PIPE)


@pytest.mark.parametrize("kills", [8, pytest.param(200, marks=pytest.mark.nightly)])
def test_a_killed_writer_leaves_a_whole_file(kills: int, tmp_path: Path) -> None:
    """Killed at random instants, and while it writes; what it leaves is swept away."""
    chance = random.Random(SEED)
    path = tmp_path / "file"
    left = 0
    for number in range(kills):
        with writer(path, 10**6) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"at work\n"
            if number % 2:
                while not list(tmp_path.glob(".kv-canary-*.tmp")):
                    assert process.poll() is None
            else:
                select.select((), (), (), chance.uniform(0, 0.03))
            process.kill()
        data = path.read_bytes()
        assert len(data) == SIZE
        assert data == data[:1] * SIZE
        left += len(sweep(tmp_path))
        assert [one.name for one in tmp_path.iterdir()] == ["file"]
    assert left > 0


def test_sweeping_does_not_harm_who_is_writing(tmp_path: Path) -> None:
    """At most it takes a file that is still empty and not locked yet; its writer makes another."""
    path = tmp_path / "file"
    process = writer(path, 100)
    assert process.stdout is not None
    assert process.stdout.readline() == b"at work\n"
    while process.poll() is None:
        sweep(tmp_path)
    process.stdout.close()
    assert process.returncode == 0
    assert [one.name for one in tmp_path.iterdir()] == ["file"]
    assert path.stat().st_size == SIZE


def test_sweeping_leaves_alone_what_is_locked(tmp_path: Path) -> None:
    temporary = tmp_path / f"{TEMPORARY_PREFIX}0{TEMPORARY_SUFFIX}"
    with temporary.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert sweep(tmp_path) == []
        assert temporary.exists()
    assert sweep(tmp_path) == [temporary]
