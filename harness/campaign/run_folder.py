"""The folder of one campaign: findings, cases in flight, and the summary."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import msgspec

from ..atomic_file import sweep, write_atomically
from ..findings.reproducer import Reproducer, read_reproducer, write_reproducer

CASE_SUFFIX = ".kvcase.json"


class InFlight(msgspec.Struct, frozen=True):
    """Case indices that a process is about to run; what is left of a dead one names its batch."""

    first: int
    count: int


def slug(signature: str) -> str:
    """A file name for a signature, readable, and different from that of any other.

    It is so where case does not tell names apart, too: 64 bits of a hash do.
    """
    words = re.sub(r"[^A-Za-z0-9]+", "-", signature).strip("-").lower()[:60] or "finding"
    return f"{words}-{hashlib.sha256(signature.encode()).hexdigest()[:16]}"


class RunFolder:
    """Paths and files under ``root``, which is made when something is first written."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def findings(self) -> Path:
        return self.root / "findings"

    def finding(self, signature: str) -> Path:
        """The folder of a signature."""
        return self.findings / slug(signature)

    def reproducer_path(self, signature: str) -> Path:
        """Where the shrunk case of a signature belongs."""
        return self.finding(signature) / f"shrunk{CASE_SUFFIX}"

    def script_path(self, signature: str) -> Path:
        """Where the script that reproduces a signature's launch without this package belongs."""
        return self.finding(signature) / "reproduce.py"

    def record(self, reproducer: Reproducer) -> Path:
        """Write a case as it was found, named by its index."""
        folder = self.finding(reproducer.signature)
        name = reproducer.index if reproducer.index >= 0 else "of-the-corpus"
        path = folder / f"case-{name}{CASE_SUFFIX}"
        write_reproducer(path, reproducer)
        return path

    def new_signatures(self, seen: set[str]) -> Iterator[str]:
        """The signatures that were recorded since, by the names of their folders in ``seen``."""
        for path in self.findings.glob(f"*/case-*{CASE_SUFFIX}"):
            if path.parent.name not in seen:
                seen.add(path.parent.name)
                yield read_reproducer(path).signature

    def originals(self) -> dict[str, Reproducer]:
        """Of each signature the recorded case with the lowest index."""
        lowest: dict[str, Reproducer] = {}
        for path in sorted(self.findings.glob(f"*/case-*{CASE_SUFFIX}")):
            found = read_reproducer(path)
            known = lowest.get(found.signature)
            if known is None or found.index < known.index:
                lowest[found.signature] = found
        return lowest

    def has_company(self, signature: str) -> bool:
        """Whether the recorded cases of a signature need others beside them."""
        paths = sorted(self.finding(signature).glob(f"case-*{CASE_SUFFIX}"))
        return any(read_reproducer(path).company.size for path in paths[:1])

    def mark_in_flight(self, batch: InFlight) -> None:
        """Say, before launching, what this process is about to run."""
        path = self._in_flight_path(os.getpid())
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, msgspec.json.encode(batch), durable=False)

    def clear_in_flight(self) -> None:
        self.forget_in_flight(os.getpid())

    def forget_in_flight(self, process: int) -> None:
        """Say that nothing of what a process ran is lost."""
        self._in_flight_path(process).unlink(missing_ok=True)

    @property
    def summary(self) -> Path:
        return self.root / "run.json"

    @property
    def report(self) -> Path:
        return self.root / "report.html"

    @property
    def sarif(self) -> Path:
        return self.root / "findings.sarif"

    @property
    def source_counts(self) -> Path:
        """Where emulated targets count the lines and branches that they reach."""
        return self.root / "source-counts"

    @property
    def replayed(self) -> Path:
        """The cases of the corpus as they were when the run began."""
        return self.root / "replayed.json"

    def shard(self, index: int) -> Path:
        """Where a shard leaves its tally; the folder is made."""
        return self._made("shards") / f"{index}.json"

    def progress(self, index: int) -> Path:
        """Where a shard leaves what it has seen so far; the folder is made."""
        return self._made("progress") / f"{index}.json"

    def shards_begun(self) -> list[Path]:
        """The progress of the shards that have begun, whether they have ended or not."""
        return sorted((self.root / "progress").glob("*.json"))

    def _made(self, name: str) -> Path:
        folder = self.root / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def shards(self) -> list[Path]:
        """The tallies of the shards that ran to their end."""
        return sorted((self.root / "shards").glob("*.json"))

    def in_flight(self, process: int) -> InFlight | None:
        """What a process was running when it died, if it said so."""
        path = self._in_flight_path(process)
        if not path.exists():
            return None
        return msgspec.json.decode(path.read_bytes(), type=InFlight)

    def lost_batches(self) -> list[InFlight]:
        """What processes that are gone had in flight."""
        paths = sorted((self.root / "in-flight").glob("*.json"))
        return [msgspec.json.decode(path.read_bytes(), type=InFlight) for path in paths]

    def forget_batch(self, first: int | None) -> None:
        """Say that the batch that begins with case ``first`` is not lost: it has been counted."""
        for path in (self.root / "in-flight").glob("*.json"):
            if msgspec.json.decode(path.read_bytes(), type=InFlight).first == first:
                path.unlink()

    def clear_lost_batches(self) -> None:
        shutil.rmtree(self.root / "in-flight", ignore_errors=True)

    @property
    def lock(self) -> Path:
        """Says which run is in the folder, and is locked while it is (see `tenancy`)."""
        return self.root / "run.lock"

    def left_in_flight(self) -> list[str]:
        """A line for each batch that an earlier run was killed over."""
        return [self._left_by(path) for path in sorted((self.root / "in-flight").glob("*.json"))]

    def make_way(self) -> list[str]:
        """Make the folder what a run may begin in; a line about each thing that was there.

        What is kept of an earlier run is moved into a folder of its own, and the rest deleted.
        Raises OSError.
        """
        lines = self.left_in_flight()
        for name in ("in-flight", "shards", "progress"):
            shutil.rmtree(self.root / name, ignore_errors=True)
        self.replayed.unlink(missing_ok=True)
        sweep(self.root)
        kept = (self.findings, self.summary, self.report, self.sarif)
        present = [path for path in kept if path.exists()]
        if present:
            for folder in self.findings.glob("*/"):
                sweep(folder)
            aside = self._unused("earlier")
            aside.mkdir()
            for path in present:
                path.rename(aside / path.name)
            lines.append(f"what an earlier run left is in {aside}")
        return lines

    def _unused(self, stem: str) -> Path:
        return next(
            path for number in count(1) if not (path := self.root / f"{stem}-{number}").exists()
        )

    def _left_by(self, path: Path) -> str:
        try:
            batch = msgspec.json.decode(path.read_bytes(), type=InFlight)
        except (OSError, msgspec.DecodeError):
            return f"an earlier run was killed in this folder; {path.name} does not say over what"
        last = batch.first + batch.count - 1
        return f"an earlier run was killed in this folder, over its cases {batch.first} to {last}"

    def _in_flight_path(self, process: int) -> Path:
        return self.root / "in-flight" / f"{process}.json"
