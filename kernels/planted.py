"""Planted bugs: changes to the CUDA source that a harness worth its name must find.

They live in ``planted.toml`` as textual patches and are applied to a copy before a build; the
source itself stays clean.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from . import counted, emulated
from .errors import PatchError
from .source import Patch


@dataclass(frozen=True)
class PlantedBug:
    """A bug and the patches that make it."""

    name: str
    description: str
    kind: str
    patches: tuple[Patch, ...]

    @property
    def files(self) -> tuple[str, ...]:
        """The source files that it touches."""
        return tuple(sorted({patch.file for patch in self.patches}))


@lru_cache(maxsize=1)
def planted_bugs() -> tuple[PlantedBug, ...]:
    """Every planted bug, in the order of the file."""
    text = (Path(__file__).parent / "planted.toml").read_text(encoding="utf-8")
    return tuple(
        PlantedBug(
            name=bug["name"],
            description=bug["description"],
            kind=bug["kind"],
            patches=tuple(Patch(**patch) for patch in bug["patches"]),
        )
        for bug in tomllib.loads(text)["bugs"]
    )


def build_planted(
    name: str, *, max_sources: int | None = None, counts: Path | None = None
) -> emulated.EmulatedKernels:
    """The emulated build of the source with one bug planted; ``counts`` as in `counted.build`.

    Raises KeyError for a name that no bug has, PatchError, with the bug's name, where its patches
    no longer apply, and what `emulated.build` raises.
    """
    bug = next((bug for bug in planted_bugs() if bug.name == name), None)
    if bug is None:
        names = ", ".join(known.name for known in planted_bugs())
        raise KeyError(f"no planted bug {name!r}; there are {names}")
    try:
        if counts is not None:
            return counted.build(counts, bug.patches)
        return emulated.build(max_sources, bug.patches)
    except PatchError as error:
        raise PatchError(f"planted bug {name}: {error}") from error
