"""The ledger: findings that are known, so that a run fails for new ones alone.

A TOML file with one ``[[findings]]`` table for each, made to be read and edited by hand.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from ..atomic_file import write_atomically
from ..judging.verdict import WHERE
from ..reading import Unreadable, one_line, read_bounded

MOST_BYTES = 4 * 2**20
"""How long a ledger may be."""

State = Literal["tolerated", "quarantined", "fixed"]

HEADER = (
    "# Findings that are known. `kv-canary-fuzz ledger update RUN` adds what a run found anew and\n"
    "# marks what no longer happens. state: tolerated (a run fails the day it no longer happens),\n"
    "# quarantined (never launched) or fixed.\n"
)


class LedgerError(Exception):
    """A ledger that cannot be had; the message is one line that names the file and the fault."""


class LedgerEntry(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """One known finding of one target.

    ``reproducer`` is a path from the ledger's folder. ``since`` and ``until`` are the dates when
    it was found and when it was seen to be fixed. ``what`` says what happens, ``version`` in which
    version of the target, ``link`` where it is discussed. Where it is quarantined, ``where`` may
    name the circumstances (see `strategies.circumstances`) that cases must not have together.
    """

    signature: str
    target: str
    state: State = "tolerated"
    title: str = ""
    what: str = ""
    version: str = ""
    reproducer: str = ""
    link: str = ""
    since: str = ""
    until: str = ""
    where: tuple[str, ...] = ()


class Ledger(Struct, frozen=True, forbid_unknown_fields=True):
    """Entries in the order of the file; a target and a signature together occur once."""

    findings: tuple[LedgerEntry, ...] = ()

    def entry(self, target: str, signature: str) -> LedgerEntry | None:
        """The entry for a finding, whatever its state."""
        for entry in self.findings:
            if (entry.target, entry.signature) == (target, signature):
                return entry
        return None

    def knows(self, target: str, signature: str) -> bool:
        """Whether the finding is expected; one that was fixed and comes back is not.

        A finding that takes several circumstances is, where one of them alone has an entry.
        """
        entry = self.entry(target, signature)
        if entry is not None:
            return entry.state != "fixed"
        needed = where_of(signature)
        alone = {
            where_of(known.signature)
            for known in self.findings
            if known.target == target and known.state != "fixed"
        }
        return len(needed) > 1 and any((name,) in alone for name in needed)

    def with_entry(self, entry: LedgerEntry) -> Ledger:
        """The ledger with ``entry`` in place of the one with its target and signature, or last."""
        key = entry.target, entry.signature
        others = [(e.target, e.signature) for e in self.findings]
        if key not in others:
            return Ledger((*self.findings, entry))
        position = others.index(key)
        return Ledger((*self.findings[:position], entry, *self.findings[position + 1 :]))


def where_of(signature: str) -> tuple[str, ...]:
    """The circumstances that a signature names."""
    _, _, named = signature.partition(WHERE)
    return tuple(named.split(" and ")) if named else ()


def read_ledger(path: Path) -> Ledger:
    """The ledger in ``path``, whose reproducers exist. Raises LedgerError."""
    try:
        text = read_bounded(path, MOST_BYTES).decode()
        ledger = msgspec.convert(tomllib.loads(text), Ledger)
    except Unreadable as error:
        raise LedgerError(one_line(f"ledger {path} {error}")) from None
    except RecursionError:
        raise LedgerError(one_line(f"ledger {path}: is nested too deeply")) from None
    except ValueError as error:  # of TOML, UTF-8, numbers with too many digits, the entries' types
        raise LedgerError(one_line(f"ledger {path}: {error}")) from None
    seen: set[tuple[str, str]] = set()
    for entry in ledger.findings:
        key = entry.target, entry.signature
        if key in seen:
            fault = f"has {entry.signature!r} of {entry.target} twice"
            raise LedgerError(one_line(f"ledger {path}: {fault}"))
        seen.add(key)
        if entry.reproducer and not _is_file(path.parent / entry.reproducer):
            fault = f"reproducer {entry.reproducer} is missing"
            raise LedgerError(one_line(f"ledger {path}: {fault}"))
    return ledger


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that no file can have
        return False


def write_ledger(path: Path, ledger: Ledger) -> None:
    """Write the file so that it is whole at any instant. Raises OSError."""
    tables = []
    for entry in ledger.findings:
        fields = {"state": entry.state} | msgspec.to_builtins(entry)
        lines = [f"{name} = {json.dumps(text)}" for name, text in fields.items()]
        tables.append("\n".join(["[[findings]]", *lines]) + "\n")
    write_atomically(path, "\n".join([HEADER, *tables]).encode())
