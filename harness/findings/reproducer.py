"""Reproducer files (``*.kvcase.json``): one failing case, and what anyone needs to replay it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct

from kv_canary_fuzz.strategies.case import Case
from kv_canary_fuzz.strategies.classify import MalformedCase, check_case

from ..atomic_file import write_atomically
from ..json_text import json_text

FORMAT: Final = "kv-canary-fuzz case"
VERSION: Final = 1
MAX_FILE_BYTES = 2**20
_MAX_FAULT_LENGTH = 400

Line = Annotated[str, Meta(max_length=4096)]
Lines = Annotated[tuple[Line, ...], Meta(max_length=64)]
Versions = Annotated[dict[Line, Line], Meta(max_length=64)]


class Reproducer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A failing case with its story.

    ``signature`` is what replaying it must show, ``mismatches`` what was expected and found, a
    line each. ``seed`` and ``index`` name the case of the campaign that it was shrunk from; -1
    where it is from no campaign.
    """

    format: Literal["kv-canary-fuzz case"] = FORMAT
    version: Literal[1] = VERSION
    signature: Line
    target: Line
    reference: Line
    mismatches: Lines = ()
    seed: Annotated[int, Meta(ge=-1)] = -1
    index: Annotated[int, Meta(ge=-1, le=2**63 - 1)] = -1
    versions: Versions = msgspec.field(default_factory=dict)
    device: Line = ""
    note: Line = ""
    case: Case


class ReproducerError(Exception):
    """A file that is no reproducer: one line with the file, the place in it and the fault."""

    def __init__(self, path: Path, place: str, fault: str) -> None:
        where = f"{path}: {place}: {fault}" if place else f"{path}: {fault}"
        super().__init__(_one_line(where))
        self.path = path
        self.place = place
        self.fault = fault


class _Header(Struct):
    format: Any = None
    version: Any = None


def read_reproducer(path: Path) -> Reproducer:
    """The reproducer in ``path``, whose case is well-formed. Raises ReproducerError."""
    data = _read(path)
    try:
        _check_header(path, data)
        found = msgspec.json.decode(data, type=Reproducer)
        json.loads(data, object_pairs_hook=_no_duplicates)
        check_case(found.case)
    except msgspec.ValidationError as error:
        fault, _, place = str(error).partition(" - at ")
        raise ReproducerError(path, place.strip("`"), fault) from None
    except msgspec.DecodeError as error:
        raise ReproducerError(path, "", str(error)) from None
    except MalformedCase as error:
        raise ReproducerError(path, f"$.case.{error.place}", error.fault) from None
    except RecursionError:
        raise ReproducerError(path, "", "is nested too deeply") from None
    except _DuplicateKey as error:
        raise ReproducerError(path, "", f"has the field {error} twice") from None
    return found


def write_reproducer(path: Path, reproducer: Reproducer) -> None:
    """Write the file, whole at any instant, and its folder if that is missing. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, encode_reproducer(reproducer))


def encode_reproducer(reproducer: Reproducer) -> bytes:
    """The bytes of the file."""
    return json_text(msgspec.json.decode(msgspec.json.encode(reproducer))).encode()


def _read(path: Path) -> bytes:
    """At most MAX_FILE_BYTES, however long the file is or grows."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ReproducerError(path, "", f"cannot be read: {reason}") from None
    if len(data) > MAX_FILE_BYTES:
        raise ReproducerError(path, "", f"is longer than the limit of {MAX_FILE_BYTES} bytes")
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise ReproducerError(path, f"byte {error.start}", "is not UTF-8") from None
    return data


def _check_header(path: Path, data: bytes) -> None:
    """What the file says that it is, before anything else in it is judged."""
    header = msgspec.json.decode(data, type=_Header)
    if header.format != FORMAT:
        fault = f"is {_shown(header.format)}, not {FORMAT!r}"
        raise ReproducerError(path, "$.format", fault)
    if header.version != VERSION or header.version is True:
        fault = f"is {_shown(header.version)}, this program reads version {VERSION}"
        raise ReproducerError(path, "$.version", fault)


class _DuplicateKey(Exception):
    pass


def _no_duplicates(pairs: list[tuple[str, object]]) -> None:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise _DuplicateKey(repr(key))
        seen.add(key)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."


def _one_line(text: str) -> str:
    """``text`` without control characters, cut where it goes on for too long."""
    printable = re.sub(
        r"[^\x20-\x7e\xa1-\ud7ff\ue000-\uffff\U00010000-\U0010ffff]",
        lambda match: repr(match[0])[1:-1],
        text,
    )
    if len(printable) <= _MAX_FAULT_LENGTH:
        return printable
    return f"{printable[:_MAX_FAULT_LENGTH]}..."
