"""Which lines and branches of the CUDA source a campaign on the emulated build reached.

Each kernel counts by itself, with the functions that it uses and its own instances of templates: a
line or branch that two kernels have is two, and what a kernel does not have is none of its own.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from ..targets.builtin import COVERAGE_FOLDER, load_line_counts


class Reached(Struct, frozen=True):
    """Lines and branches of a kernel or of a file, and how many of them were reached."""

    name: str
    lines: int
    lines_reached: int
    branches: int
    branches_reached: int


class Unreached(Struct, frozen=True):
    """A place that a kernel has and did not reach: branch ``branch`` of the ``of`` of a line that
    was reached, from 1 on, or the whole line where both are 0."""

    file: str
    line: int
    branch: int
    of: int
    kernel: str


class SourceCoverage(Struct, frozen=True):
    """What was reached, kernel by kernel and file by file, and all that was not."""

    kernels: tuple[Reached, ...]
    files: tuple[Reached, ...]
    unreached: tuple[Unreached, ...]

    @property
    def total(self) -> Reached:
        return _sum("all", self.kernels)


class _Place(Struct, frozen=True):
    """One line of one kernel."""

    kernel: str
    file: str
    line: int
    count: int
    branches: tuple[int, ...]


@contextmanager
def counting(folder: Path | None, *, fresh: bool = True) -> Iterator[None]:
    """Emulated targets that are loaded within, here or in child processes, count into ``folder``.

    None: they do not. ``fresh`` drops what an earlier run left there.
    """
    if folder is None:
        yield
        return
    if fresh:
        shutil.rmtree(folder, ignore_errors=True)
    before = os.environ.get(COVERAGE_FOLDER)
    os.environ[COVERAGE_FOLDER] = str(folder.absolute())
    try:
        yield
    finally:
        if before is None:
            del os.environ[COVERAGE_FOLDER]
        else:
            os.environ[COVERAGE_FOLDER] = before


def read_source_coverage(folder: Path) -> SourceCoverage:
    """What the processes that counted into ``folder`` reached together. Raises TargetError."""
    places = [
        _Place(kernel, *line)
        for kernel, lines in load_line_counts(folder).items()
        for line in lines
    ]
    kernels = dict.fromkeys(place.kernel for place in places)
    files = sorted({place.file for place in places})
    return SourceCoverage(
        kernels=tuple(_reached(k, [p for p in places if p.kernel == k]) for k in kernels),
        files=tuple(_reached(f, [p for p in places if p.file == f]) for f in files),
        unreached=tuple(
            sorted(
                (missed for place in places for missed in _unreached(place)),
                key=lambda missed: (missed.file, missed.line, missed.branch, missed.kernel),
            )
        ),
    )


def _reached(name: str, places: list[_Place]) -> Reached:
    ways = [count for place in places for count in place.branches]
    return Reached(
        name=name,
        lines=len(places),
        lines_reached=sum(place.count > 0 for place in places),
        branches=len(ways),
        branches_reached=sum(count > 0 for count in ways),
    )


def _unreached(place: _Place) -> Iterator[Unreached]:
    if not place.count:
        yield Unreached(place.file, place.line, 0, 0, place.kernel)
        return
    for number, count in enumerate(place.branches, start=1):
        if not count:
            yield Unreached(place.file, place.line, number, len(place.branches), place.kernel)


def _sum(name: str, parts: tuple[Reached, ...]) -> Reached:
    return Reached(
        name,
        *(
            sum(getattr(part, field) for part in parts)
            for field in ("lines", "lines_reached", "branches", "branches_reached")
        ),
    )
