"""What a run knows already of inputs that its target does not claim, and launches no more."""

from __future__ import annotations

from collections.abc import Collection

from kv_canary_fuzz.strategies.case import Case
from kv_canary_fuzz.strategies.circumstances import OTHER, circumstances

from ..execution.outcome import CRASH
from ..findings.ledger import where_of
from ..judging.verdict import WHERE
from ..targets.target import CLAIMABLE, Target
from .run_folder import RunFolder


class Hold:
    """What this run, with all its workers, has found where the target claims nothing.

    Cases with the open or illegal inputs that its processes died of are held back: that they kill
    is said once, and a process for each further case would tell nothing new.
    """

    def __init__(self, folder: RunFolder, target: Target) -> None:
        self._folder = folder
        self._looks = target.isolation is not None and target.domains != CLAIMABLE
        self._seen: set[str] = set()
        self._found: list[tuple[str, frozenset[str]]] = []

    def look(self) -> None:
        """Take in what was found since the last look."""
        if not self._looks:
            return
        for signature in self._folder.new_signatures(self._seen):
            where = where_of(signature)
            if where and OTHER not in where:
                self._found.append((signature, frozenset(where)))

    def keeps(self, case: Case) -> bool:
        """Whether the case is not to be launched."""
        deadly = [where for signature, where in self._found if signature.startswith(CRASH)]
        if not deadly:
            return False
        names = set(circumstances(case, len(case.steps) - 1))
        return any(where <= names for where in deadly)

    @property
    def knows_any(self) -> bool:
        return bool(self._found)

    def explains(self, kind: str, names: Collection[str]) -> str | None:
        """The signature of a finding of that kind whose circumstances are all among ``names``."""
        for signature, where in self._found:
            if signature.partition(WHERE)[0] == kind and where.issubset(names):
                return signature
        return None
