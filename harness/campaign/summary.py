"""What a campaign did and found, as values that are printed, drawn and stored in ``run.json``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from ..atomic_file import write_atomically
from ..explaining.explanation import Explanation
from ..findings.reproducer import Reproducer
from ..reading import Unreadable, one_line, read_bounded
from .confidence import Bounds
from .coverage import PairMatrix
from .run_check import fault_in
from .settings import Settings
from .source_coverage import SourceCoverage

FORMAT: Final = "kv-canary-fuzz run"
VERSION: Final = 1
MOST_BYTES = 64 * 2**20
"""How long a ``run.json`` may be that is read."""

Standing = Literal["new", "known", "back", "undefined"]
"""A finding that the ledger does not have, that it has, or that it says was fixed; undefined
behaviour found where the ledger has none and the target claims nothing about such cases."""


Outcome = Literal["met", "still there", "fixed", "not tried"]
"""What became of a finding that the ledger has: met; not met, but its reproducer shows it; not
met, and its reproducer no longer shows it; or not met, and not tried either."""


class RunError(Exception):
    """A folder that holds no readable run; one line that names the file and the fault."""


class Finding(Struct, frozen=True, kw_only=True):
    """One signature: how often it was met, and the files that replay it.

    ``file`` is the shrunk case, or the original where it cannot be shrunk, as a path from where
    the run was started, and empty where neither could be written; ``folder`` is the finding's
    folder, from the run's. ``script`` is the text of ``reproduce.py`` there, empty where there is
    none. ``alone`` names who stands alone among target, reference and scalar model, where they
    vote. ``reproducer`` is what is in ``file``.
    """

    signature: str
    count: int
    first_index: int
    file: str
    lines: tuple[str, ...] = ()
    alone: str = ""
    standing: Standing = "new"
    title: str = ""
    folder: str = ""
    script: str = ""
    reproducer: Reproducer | None = None
    explanation: Explanation | None = None

    @property
    def replay(self) -> str:
        """What replays it, as a command, or in words where no file of it could be written."""
        if not self.file:
            return "no file could be written; its text is in the run's output"
        return f"kv-canary-fuzz replay {self.file}"

    @property
    def fails(self) -> bool:
        """Whether the run fails for it."""
        return self.standing in ("new", "back")


class WorkerPace(Struct, frozen=True):
    """One worker's cases per second over time.

    ``began`` counts seconds from the first worker's first moment; every entry of ``rates`` stands
    for ``bucket`` seconds.
    """

    began: float
    bucket: float
    cases: int
    rates: tuple[float, ...]


class Timing(Struct, frozen=True, kw_only=True):
    """All of a run that is not the same when it is repeated. ``core_seconds`` adds up workers."""

    started: str
    seconds: float
    core_seconds: float
    workers: tuple[WorkerPace, ...] = ()


class LedgerNote(Struct, frozen=True, kw_only=True):
    """What became of a finding that the ledger has for this target."""

    signature: str
    title: str
    outcome: Outcome


class CorpusUse(Struct, frozen=True):
    """The corpus of a run: cases replayed first, and cases added at its end."""

    folder: str
    replayed: int
    added: int


class CaseRange(Struct, frozen=True):
    """The cases from ``first`` on."""

    first: int
    count: int


class Summary(Struct, frozen=True, kw_only=True):
    """A campaign from its settings to its findings: all that the report shows.

    ``source`` is there where coverage was asked for. ``target`` is the one that ran, where the
    settings say ``auto``, and ``device`` is where its tensors were. ``quarantined`` counts cases
    that the ledger kept from it, ``held_back`` those with what had killed a process of it before,
    ``outgrown`` its processes that were replaced because their memory had grown.
    ``never_met`` names features of the domain that no case had, ``never_together`` those that
    others were never with, each pair once. ``bounds`` says how rarely cases fail, where nothing was
    found, and counts generated cases alone. ``lost`` has what worker processes were running when
    they were killed, which was run again. ``interrupted`` says that a person ended it before it was
    done. ``unwritten`` has a line for each file that could not be written, with which the run ended
    early.
    """

    format: Literal["kv-canary-fuzz run"] = FORMAT
    version: Literal[1] = VERSION
    settings: Settings
    target: str
    device: str
    cases: int
    features: dict[str, int]
    never_met: tuple[str, ...]
    pairs: PairMatrix
    never_together: dict[str, tuple[str, ...]]
    bounds: Bounds | None
    findings: tuple[Finding, ...]
    ledger: tuple[LedgerNote, ...] = ()
    corpus: CorpusUse | None = None
    source: SourceCoverage | None = None
    versions: dict[str, str]
    lost: tuple[CaseRange, ...] = ()
    interrupted: bool = False
    quarantined: int = 0
    held_back: int = 0
    outgrown: int = 0
    unwritten: tuple[str, ...] = ()
    timing: Timing

    @property
    def rate(self) -> float:
        """Cases per second and core."""
        return self.cases / self.timing.core_seconds if self.timing.core_seconds else 0.0

    @property
    def failing(self) -> tuple[Finding, ...]:
        """The findings that the run fails for."""
        return tuple(finding for finding in self.findings if finding.fails)

    @property
    def gone(self) -> tuple[str, ...]:
        """The signatures that the ledger tolerates and that no longer happen: the run fails too."""
        return tuple(note.signature for note in self.ledger if note.outcome == "fixed")

    @property
    def shortcoming(self) -> str:
        """Why the run is not whole, and what to do, in one line; empty where it is."""
        if not self.unwritten:
            return ""
        more = len(self.unwritten) - 1
        others = f" ({more} more like this)" if more else ""
        return (
            f"{self.unwritten[0]}{others}: the run is not whole; "
            f"run it again with --seed {self.settings.seed} where there is room to write"
        )

    @property
    def fails(self) -> bool:
        """Whether something happened that the ledger does not expect, or the other way round."""
        return bool(self.failing or self.gone)


def write_summary(path: Path, summary: Summary) -> None:
    """Write ``run.json`` so that it is whole at any instant. Raises OSError."""
    write_atomically(path, msgspec.json.format(msgspec.json.encode(summary)) + b"\n")


def read_summary(path: Path) -> Summary:
    """The run in ``path``, a run's folder or its ``run.json``. Raises RunError."""
    file = path / "run.json" if path.is_dir() else path
    try:
        found = msgspec.json.decode(read_bounded(file, MOST_BYTES), type=Summary)
        fault = fault_in(found)
    except Unreadable as error:
        raise RunError(one_line(f"{file}: {error}")) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RunError(one_line(f"{file}: is no run: {error}")) from None
    if fault:
        raise RunError(one_line(f"{file}: is no run: {fault}"))
    return found


def run_schema() -> dict[str, Any]:
    """The JSON schema of ``run.json``."""
    schema: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(msgspec.json.schema(Summary)))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A run of kv-canary-fuzz (run.json)",
    } | schema
