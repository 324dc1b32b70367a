"""What a process said before it died: a sanitizer's report, or the last lines of its output."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

MOST_LINES = 12
MOST_CHARACTERS = 200

_ADDRESS = re.compile(r"ERROR: AddressSanitizer: (?P<kind>[\w-]+)")
_UNDEFINED = re.compile(r"^(?P<place>\S+:\d+):\d+: runtime error: (?P<what>.*)$")
_FRAME = re.compile(r"^\s*#\d+ .*?(?P<place>[\w.]+\.(?:cuh|cu|h|cpp):\d+)(?::\d+)?$")
_KERNEL_LINE = re.compile(r"\.cuh?:\d+$")
_UNDEFINED_KINDS = (
    *("signed integer overflow", "shift exponent", "left shift", "misaligned address"),
    *("null pointer", "out of bounds", "division by zero", "pointer overflow"),
)


@dataclass(frozen=True)
class Report:
    """``kind``, and ``place`` (a file of the source and a line), where the report names them."""

    kind: str = ""
    place: str = ""
    lines: tuple[str, ...] = ()


def read_report(text: str) -> Report:
    """The report in a process's error output."""
    lines = [line.rstrip()[:MOST_CHARACTERS] for line in text.splitlines() if line.strip()]
    for number, line in enumerate(lines):
        if found := _ADDRESS.search(line):
            kind = "segfault" if found["kind"] == "SEGV" else found["kind"]
            return _sanitizer_report(kind, lines[number:])
        if found := _UNDEFINED.match(line):
            said = (kind for kind in _UNDEFINED_KINDS if kind in found["what"])
            kind = next(said, "undefined behaviour")
            return _sanitizer_report(kind, lines[number:], found["place"])
    kind = "out of memory" if "std::bad_alloc" in text else ""
    return Report(kind, "", tuple(lines[-MOST_LINES:]))


def _sanitizer_report(kind: str, lines: Sequence[str], place: str = "") -> Report:
    """The first line of the kernels that the report names, before any of the host's shim."""
    frames = [found["place"] for line in lines if (found := _FRAME.match(line))]
    places = [place, *frames] if place else frames
    kernels = (place for place in places if _KERNEL_LINE.search(place))
    return Report(kind, next(kernels, next(iter(places), "")), tuple(lines[:MOST_LINES]))
