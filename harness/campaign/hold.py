"""Cases that a run does not launch any more: what they hold has killed a process already."""

from __future__ import annotations

from kv_canary_fuzz.strategies.case import Case
from kv_canary_fuzz.strategies.circumstances import OTHER, circumstances

from ..execution.outcome import CRASH
from ..findings.ledger import where_of
from ..targets.target import CLAIMABLE, Target
from .run_folder import RunFolder


class Hold:
    """Holds back cases with the open or illegal inputs that this run's processes died of.

    Only what the target does not claim is held back: that it kills is said once, and a process for
    each further case would tell nothing new. What other workers of the run found counts as well.
    """

    def __init__(self, folder: RunFolder, target: Target) -> None:
        self._folder = folder
        self._looks = target.isolation is not None and target.domains != CLAIMABLE
        self._seen: set[str] = set()
        self._where: list[frozenset[str]] = []

    def look(self) -> None:
        """Take in what was found since the last look."""
        if not self._looks:
            return
        for signature in self._folder.new_signatures(self._seen):
            where = where_of(signature)
            if signature.startswith(CRASH) and where and OTHER not in where:
                self._where.append(frozenset(where))

    def keeps(self, case: Case) -> bool:
        """Whether the case is not to be launched."""
        if not self._where:
            return False
        found = set(circumstances(case, len(case.steps) - 1))
        return any(where <= found for where in self._where)
