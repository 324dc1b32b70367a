"""A campaign's findings, each filed with one case: shrunk, explained, held against the ledger."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec.structs import replace

from ..atomic_file import noting, write_atomically
from ..execution.outcome import CRASH
from ..explaining.explain import explain
from ..findings.ledger import Ledger, read_ledger
from ..findings.provenance import describe
from ..findings.reproducer import Reproducer, write_reproducer
from ..findings.script import script_text
from ..findings.shrunk_file import shrunk
from ..findings.standing import standing_of
from ..judging.opinion import who_stands_alone
from ..judging.plainest import plainest
from ..judging.repeats import FLAKY
from ..judging.verdict import Verdict, judge
from ..targets.builtin import load_other
from ..targets.target import CLAIMABLE, Target
from .blame import UNSTEADY
from .case_source import CaseSource
from .run_folder import RunFolder
from .settings import Settings
from .summary import Finding
from .tally import Tally


class Filing:
    """Files the findings of ``tally`` in the run's folder.

    What cannot be written is noted in the tally. Raises LedgerError.
    """

    def __init__(
        self,
        settings: Settings,
        folder: RunFolder,
        tally: Tally,
        source: CaseSource,
        target: Target,
        reference: Target | None,
    ) -> None:
        self._settings = settings
        self._folder = folder
        self._tally = tally
        self._source = source
        self._target = target
        self._reference = reference
        path = settings.ledger
        self.ledger = Ledger() if path is None else read_ledger(Path(path))

    def file(self, signature: str) -> Finding:
        """Shrink one case of ``signature`` and write it; an unsteady one is kept as it is."""
        sighting = self._tally.findings[signature]
        original = self._original(signature, sighting.first_index)
        file = ""
        with noting(self._tally.unwritten):
            file = _from_here(self._folder.record(original))
        finding = Finding(
            signature=signature,
            count=sighting.count,
            first_index=sighting.first_index,
            file=file,
            folder=str(self._folder.finding(signature).relative_to(self._folder.root)),
            lines=original.mismatches,
            reproducer=original,
        )
        if not signature.startswith(UNSTEADY):
            finding = self._shrunk(finding, original)
        assert finding.reproducer is not None
        entry = self.ledger.entry(self._target.name, signature)
        case = finding.reproducer.case
        return replace(
            finding,
            standing=standing_of(self.ledger, self._target, signature, case),
            title=entry.title if entry else "",
        )

    def _original(self, signature: str, index: int) -> Reproducer:
        """The case of ``signature`` to begin with: its first one, made again, in its plainest form.

        As recorded, where that was found in company, or where it takes process after process to
        look for that form.
        """
        unclaimed = self._target.domains != CLAIMABLE
        found = describe(self._settings, self._source.at(index), index, signature, ())
        recorded = unclaimed and self._target.isolation is not None
        if recorded or signature.startswith(UNSTEADY) or self._folder.has_company(signature):
            found = self._folder.originals().get(signature, found)
        elif unclaimed and not signature.startswith(FLAKY):
            verdict = judge(found.case, self._target, self._reference)
            case, _ = plainest(found.case, verdict, self._target, self._reference)
            found = replace(found, case=case)
        note = f"from the corpus {self._settings.corpus}" if found.index < 0 else ""
        return replace(found, note=note)

    def _shrunk(self, finding: Finding, original: Reproducer) -> Finding:
        """The finding with its case shrunk, and all that is said of that."""
        target, reference, signature = self._target, self._reference, finding.signature
        path = self._folder.reproducer_path(signature)
        small, verdict = shrunk(original, target, reference, path, self._settings.shrink_seconds)
        file = ""
        with noting(self._tally.unwritten):
            write_reproducer(path, small)
            file = _from_here(path)
        steady = not original.company.size and not signature.startswith(FLAKY)
        shows = steady and not verdict.agrees
        script = _script(small, target, reference, verdict) if shows else ""
        if script:
            with noting(self._tally.unwritten):
                write_atomically(self._folder.script_path(signature), script.encode())
        alone = ""
        if shows and not signature.startswith(CRASH):
            third = self._settings.third
            asked = None if third is None else load_other(third, target.contract)
            alone = who_stands_alone(small.case, target, reference, asked)
        return replace(
            finding,
            file=file,
            lines=small.mismatches,
            alone=alone,
            script=script,
            reproducer=small,
            explanation=None if verdict.agrees else explain(small.case, verdict),
        )


def _script(found: Reproducer, target: Target, reference: Target | None, verdict: Verdict) -> str:
    """The standalone script, if there is one; a sanitized build has none."""
    died = found.signature.startswith(CRASH)
    shown = None if died else verdict
    return "" if target.fence else script_text(found, target, reference, shown)


def _from_here(path: Path) -> str:
    """``path`` as a person in the current folder would type it."""
    here = Path.cwd()
    return os.path.relpath(path) if path.is_absolute() and path.is_relative_to(here) else str(path)
