"""Cases that are never launched: what a ledger quarantines for a target."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kv_canary_fuzz.strategies.case import Case
from kv_canary_fuzz.strategies.circumstances import circumstances

from .ledger import Ledger, LedgerEntry, read_ledger, where_of
from .reproducer import read_reproducer


class Quarantine:
    """Which cases a ledger keeps from a target.

    An entry that names circumstances, in ``where`` or in its signature, holds back every case that
    has all of them; any other holds back the case of its reproducer.
    """

    def __init__(self, ledger: Ledger, target: str, folder: Path) -> None:
        self._where: list[frozenset[str]] = []
        self._cases: set[Case] = set()
        for entry in ledger.findings:
            if entry.target != target or entry.state != "quarantined":
                continue
            where = circumstances_of(entry)
            if where:
                self._where.append(where)
            elif entry.reproducer:
                self._cases.add(read_reproducer(folder / entry.reproducer).case)

    def holds(self, case: Case) -> bool:
        """Whether the case must not be launched."""
        if case in self._cases:
            return True
        if not self._where:
            return False
        found = set(circumstances(case, len(case.steps) - 1))
        return any(where <= found for where in self._where)

    def launched(self, cases: Sequence[Case]) -> list[int]:
        """The positions of those that may be launched."""
        return [position for position, case in enumerate(cases) if not self.holds(case)]


def circumstances_of(entry: LedgerEntry) -> frozenset[str]:
    """The circumstances that an entry names."""
    return frozenset(entry.where or where_of(entry.signature))


def quarantine_of(ledger: str | None, target: str) -> Quarantine:
    """What the ledger in that file keeps from a target; nothing where there is no ledger."""
    if ledger is None:
        return Quarantine(Ledger(), target, Path())
    return Quarantine(read_ledger(Path(ledger)), target, Path(ledger).parent)
