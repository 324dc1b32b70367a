"""The kernel source as a value: named texts, patched or not, joined into one translation unit."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import PatchError

KERNEL_ROOT = "kv_canary.cu"
"""The file that includes every other of the kernels."""

EMULATED_ROOT = "emulated.cpp"
"""The file that makes a library for the host of them."""

_FOLDERS = ("csrc", "host")
_INCLUDE = re.compile(r'^#include "(?P<name>[^"]+)"$')


@dataclass(frozen=True)
class Patch:
    """One change to a file: ``old``, which must occur in it exactly once, becomes ``new``."""

    file: str
    old: str
    new: str


def read_sources() -> dict[str, str]:
    """Every source file of the kernels and of the host shim by its name."""
    root = Path(__file__).parent
    paths = (path for folder in _FOLDERS for path in sorted((root / folder).iterdir()))
    return {path.name: path.read_text(encoding="utf-8") for path in paths if path.is_file()}


def apply_patches(sources: Mapping[str, str], patches: Sequence[Patch]) -> dict[str, str]:
    """The sources with every patch applied in turn.

    Raises PatchError where a patch's file does not exist or its old text is not there just once.
    """
    patched = dict(sources)
    for patch in patches:
        if patch.file not in patched:
            raise PatchError(f"no kernel source file {patch.file!r} to patch")
        found = patched[patch.file].count(patch.old)
        if found != 1:
            start = patch.old.strip().partition("\n")[0]
            raise PatchError(
                f"{patch.file}: the text to replace must occur once, found {found} times: {start}"
            )
        patched[patch.file] = patched[patch.file].replace(patch.old, patch.new)
    return patched


def translation_unit(sources: Mapping[str, str], root: str) -> str:
    """``root`` with each quoted include put in its place once.

    Line markers keep the file names and line numbers of compilers' messages true.
    """
    lines: list[str] = []
    _append(sources, root, lines, set())
    return "\n".join(lines) + "\n"


def _append(sources: Mapping[str, str], name: str, lines: list[str], seen: set[str]) -> None:
    seen.add(name)
    lines.append(f'#line 1 "{name}"')
    for number, line in enumerate(sources[name].splitlines(), start=1):
        include = _INCLUDE.match(line)
        if include is None:
            lines.append("" if line == "#pragma once" else line)
        elif include["name"] not in seen:
            _append(sources, include["name"], lines, seen)
            lines.append(f'#line {number + 1} "{name}"')
        else:
            lines.append("")
