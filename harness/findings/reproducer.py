"""Reproducer files (``*.kvcase.json``): one failing case, and what anyone needs to replay it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct

from kv_canary_fuzz.strategies.case import Case
from kv_canary_fuzz.strategies.classify import MalformedCase, check_case

from ..atomic_file import write_atomically
from ..campaign.settings import MOST_SEED
from ..json_text import json_text
from ..judging.company import ALONE, Company, check_company
from ..reading import Unreadable, one_line, read_bounded

FORMAT: Final = "kv-canary-fuzz case"
VERSION: Final = 1
MAX_FILE_BYTES = 2**20
MOST_LINE = 4096

Line = Annotated[str, Meta(max_length=MOST_LINE)]
Lines = Annotated[tuple[Line, ...], Meta(max_length=64)]
Versions = Annotated[dict[Line, Line], Meta(max_length=64)]


class Reproducer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A failing case with its story.

    ``signature`` is what replaying it must show, ``mismatches`` what was expected and found, a
    line each. ``seed`` and ``index`` name the case of the campaign that it was shrunk from; -1
    where it is from no campaign. ``company`` has the cases without which the case agrees.
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
    company: Company = ALONE
    case: Case


class ReproducerError(Exception):
    """A file that is no reproducer: one line with the file, the place in it and the fault."""

    def __init__(self, path: Path, place: str, fault: str) -> None:
        where = f"{path}: {place}: {fault}" if place else f"{path}: {fault}"
        super().__init__(one_line(where))
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
        if found.seed > MOST_SEED:  # msgspec cannot state that bound
            fault = f"{found.seed} is not in -1 .. {MOST_SEED}"
            raise ReproducerError(path, "$.seed", fault)
        check_case(found.case)
        _check_company(path, found)
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
    """The bytes of the file; it says nothing of company where there is none."""
    fields = msgspec.json.decode(msgspec.json.encode(reproducer))
    if not reproducer.company.size:
        del fields["company"]
    return json_text(fields).encode()


def _check_company(path: Path, found: Reproducer) -> None:
    try:
        check_company(found.company, found.case)
    except MalformedCase as error:
        place = f"$.company.{error.place}" if error.place else "$.company"
        raise ReproducerError(path, place, error.fault) from None


def _read(path: Path) -> bytes:
    """At most MAX_FILE_BYTES, however long the file is or grows."""
    try:
        data = read_bounded(path, MAX_FILE_BYTES)
        data.decode()
    except Unreadable as error:
        raise ReproducerError(path, "", str(error)) from None
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
