"""A run's folder: one run at a time, what a killed one leaves, and names that would clash."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from kv_canary_fuzz.harness import cli
from kv_canary_fuzz.harness.atomic_file import write_atomically
from kv_canary_fuzz.harness.campaign.run_folder import InFlight, RunFolder, slug
from kv_canary_fuzz.harness.campaign.tenancy import (
    FolderTaken,
    Tenancy,
    check_free,
    new_run,
    run_in,
    staying,
)
from kv_canary_fuzz.harness.findings.reproducer import Reproducer, read_reproducer
from kv_canary_fuzz.strategies.case import Case

FOUND = Reproducer(signature="a", target="t", reference="torch", index=3, case=Case(num_slots=1))

TENANT = """
import sys
from pathlib import Path
from kv_canary_fuzz.harness.campaign.run_folder import InFlight, RunFolder
from kv_canary_fuzz.harness.campaign.tenancy import Tenancy, new_run

folder = RunFolder(Path(sys.argv[1]))
tenancy = Tenancy(folder, new_run())
folder.mark_in_flight(InFlight(256, 128))
(folder.root / ".kv-canary-0123.tmp").write_bytes(b"half a f")
print("in", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def tenant(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process, whose run is in the folder ``run`` with a batch in flight."""
    process = subprocess.Popen(
        [sys.executable, "-c", TENANT, str(tmp_path / "run")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "in\n"
        yield process
        process.kill()


def said_by(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str, str]:
    """The exit status of the command line, and what it printed."""
    monkeypatch.setattr(sys, "argv", ["kv-canary-fuzz", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return int(ended.value.code or 0), *capsys.readouterr()


def test_of_two_runs_in_one_folder_the_second_is_refused(
    tenant: subprocess.Popen[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    root = tmp_path / "run"
    before = sorted(root.rglob("*"))
    words = ("run", "--target", "scalar", "--cases", "1", "--out", str(root))
    status, out, err = said_by(words, monkeypatch, capsys)
    assert (status, out) == (2, "")
    assert err == (
        f"run folder {root} is in use by another run, that of process {tenant.pid}; "
        "wait for it, or give another folder (--out, in pytest --kv-out)\n"
    )
    assert sorted(root.rglob("*")) == before


def test_when_a_run_is_killed_its_folder_is_free_and_what_it_left_is_named(
    tenant: subprocess.Popen[str], tmp_path: Path
) -> None:
    folder, run = RunFolder(tmp_path / "run"), new_run()
    folder.record(FOUND)
    with pytest.raises(FolderTaken, match=f"that of process {tenant.pid};"):
        check_free(folder)
    tenant.kill()
    tenant.wait()
    check_free(folder)
    assert folder.lost_batches() == [InFlight(256, 128)]
    with staying(folder, run) as tenancy:
        assert tenancy.leftovers == [
            "an earlier run was killed in this folder, over its cases 256 to 383",
            f"what an earlier run left is in {folder.root / 'earlier-1'}",
        ]
        assert run_in(folder) == run
        assert folder.lost_batches() == []
        assert sorted(path.name for path in folder.root.iterdir()) == ["earlier-1", "run.lock"]
        assert len(list((folder.root / "earlier-1").rglob("*.kvcase.json"))) == 1
    with staying(folder, new_run()) as tenancy:
        assert tenancy.leftovers == []


def test_a_mark_that_cannot_be_read_is_named_too(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.mark_in_flight(InFlight(0, 128))
    [mark] = (tmp_path / "in-flight").iterdir()
    mark.write_bytes(b'{"fir')
    with staying(folder, "a run") as tenancy:
        assert tenancy.leftovers == [
            f"an earlier run was killed in this folder; {mark.name} does not say over what"
        ]


def test_all_processes_of_a_run_are_in_its_folder_and_clear_nothing(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    first = Tenancy(folder, "1-a")
    folder.mark_in_flight(InFlight(0, 128))
    second = Tenancy(folder, "1-a")
    first.leave()
    with pytest.raises(FolderTaken, match="that of process 1;"):
        Tenancy(folder, "2-b")
    second.leave()
    with staying(folder, "1-a") as third:  # the run's processes were all gone for a moment
        assert third.leftovers == []
        assert folder.lost_batches() == [InFlight(0, 128)]


def test_a_finished_run_gives_way_and_keeps_all_that_it_found(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for number in (1, 2):
        with staying(folder, f"{number}-a"):
            path = folder.record(FOUND)
            for kept in (folder.summary, folder.report, folder.sarif):
                write_atomically(kept, b"of run %d" % number)
            for gone in (folder.shard(0), folder.progress(0), folder.replayed):
                write_atomically(gone, b"of run %d" % number)
        with staying(folder, f"{number}-b") as tenancy:
            earlier = tmp_path / f"earlier-{number}"
            assert tenancy.leftovers == [f"what an earlier run left is in {earlier}"]
            names = {path.name for path in tmp_path.iterdir()}
            assert names == {"run.lock", *(f"earlier-{n}" for n in range(1, number + 1))}
        moved = sorted(path.name for path in earlier.iterdir())
        assert moved == ["findings", "findings.sarif", "report.html", "run.json"]
        assert (earlier / "run.json").read_bytes() == b"of run %d" % number
        assert read_reproducer(earlier / path.relative_to(tmp_path)) == FOUND


SIGNATURES = (
    *("", "-", "..", "../../etc/passwd", "con", "a/b\\c:d*e?", "a b", "a  b", "A b", "a-b", "a_b"),
    *("write: raised ValueError, not nothing", "write: raised valueerror, not nothing"),
    *("x" * 4095, "x" * 4096, "\x00\x1b[2J\n", "caf\u00e9", "cafe\u0301", "\u65e5\u672c"),
)


def test_no_two_signatures_share_a_file(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    paths = {
        signature: folder.record(replace(FOUND, signature=signature)) for signature in SIGNATURES
    }
    for signature, path in paths.items():
        assert read_reproducer(path).signature == signature
        assert path.parent.parent == folder.findings
        assert len(path.parent.name) <= 80
        assert path.parent.name.isascii()
        assert not path.parent.name.startswith(("-", "."))
    assert len({str(path).lower() for path in paths.values()}) == len(paths)


def test_names_differ_where_only_marks_and_case_do() -> None:
    marks = "-_ .,:;/"
    alike = [f"a{x}b{y}c{z}D{w}e" for x in marks for y in marks for z in marks for w in marks]
    alike += [signature.lower() for signature in alike]
    assert len({slug(signature) for signature in alike}) == len(alike)
