"""Reading the counters of builds that count: which lines and branches of the source were reached.

The tool is the compiler's own: gcov of the same major version, since the files are private to it.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from .build import compiler_version, find_compiler
from .errors import CountersUnavailable


class LineCount(NamedTuple):
    """How often a line of the source was reached, and each way out of it where there are several.

    ``branches`` are the compiler's, two for each condition, in its order.
    """

    file: str
    line: int
    reached: int
    branches: tuple[int, ...]


def find_gcov() -> str:
    """The path of the gcov that belongs to the compiler.

    Raises CompilerMissing, and CountersUnavailable with what to install.
    """
    compiler = find_compiler()
    told = compiler_version(compiler)
    if "Free Software Foundation" not in told:
        first = told.partition("\n")[0]
        raise CountersUnavailable(
            f"coverage needs g++, and the compiler is {first}: set CXX=g++, "
            "or install it, for example with 'apt install g++'"
        )
    major = _major(told)
    for name in (f"gcov-{major}", "gcov"):
        path = shutil.which(name)
        if path is not None and _major(compiler_version((path,))) == major:
            return path
    raise CountersUnavailable(
        f"coverage needs gcov {major}, which belongs to g++ {major}, and there is none: "
        f"install it, for example with 'apt install gcc-{major}'"
    )


def _major(told: str) -> str:
    found = re.search(r" (\d+)\.\d+", told.partition("\n")[0])
    return found[1] if found else "?"


def read_counts(notes: Path, files: Iterable[str]) -> tuple[LineCount, ...]:
    """The lines of ``files`` that a build has, with counts from the data file beside ``notes``.

    Without a data file nothing was reached. Raises CountersUnavailable.
    """
    done = subprocess.run(
        [find_gcov(), "--json-format", "--stdout", "--branch-probabilities", notes.name],
        cwd=notes.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0 or not done.stdout:
        raise CountersUnavailable(f"gcov cannot read {notes}: {' '.join(done.stderr.split())}")
    wanted = set(files)
    return tuple(
        LineCount(
            file["file"],
            line["line_number"],
            line["count"],
            tuple(branch["count"] for branch in line["branches"]),
        )
        for file in json.loads(done.stdout)["files"]
        if file["file"] in wanted
        for line in file["lines"]
    )
