"""Who is to blame for what differed in a batch: the case alone, now and then, or with others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec.structs import replace

from kv_canary_fuzz.strategies.case import Case
from kv_canary_fuzz.strategies.circumstances import circumstances
from kv_canary_fuzz.strategies.classify import classify

from ..atomic_file import noting
from ..execution.fuzzer import Fuzzer
from ..execution.outcome import CRASH, Death
from ..findings.provenance import describe
from ..findings.reproducer import MAX_FILE_BYTES, Reproducer, encode_reproducer
from ..judging.plainest import plainest
from ..judging.repeats import FLAKY, MOST_RUNS, REPEATS, repeats
from ..judging.together import company_line
from ..judging.verdict import Verdict, judge, lines_of
from ..targets.target import Target
from .hold import Hold
from .run_folder import RunFolder
from .settings import Settings
from .suspects import Suspects
from .tally import Tally

UNSTEADY = "unsteady: differs in a batch, agrees alone"
"""The signature of a case whose batch differed once, and that could not be made to differ again,
by itself, in its batch, or behind those that its process had run before."""

TOO_MANY = "it differs in company, but of more cases than a file holds"

RARE_RUNS = 10 * MOST_RUNS
"""Runs of all cases together that did not differ again, in one process of a campaign."""

SURE = 3
"""Cases of a signature that are run again and again; those behind them fail twice to be counted."""


class Blame:
    """Turns the cases of a batch that differed into findings: counted, and the first ones kept."""

    def __init__(
        self,
        settings: Settings,
        fuzzer: Fuzzer,
        target: Target,
        reference: Target | None,
        folder: RunFolder,
        tally: Tally,
        hold: Hold,
    ) -> None:
        self._settings = settings
        self._fuzzer = fuzzer
        self._target = target
        self._reference = reference
        self._folder = folder
        self._tally = tally
        self._hold = hold
        self._suspects = Suspects(target, reference)
        self._left = RARE_RUNS

    def sort_out(
        self,
        cases: Sequence[Case],
        indices: Sequence[int],
        failing: Sequence[int],
        deaths: Mapping[int, Death],
        earlier: Sequence[Case],
    ) -> None:
        """Count the cases at ``failing`` of a batch that was just run, and record what is new.

        ``deaths`` and ``earlier`` are those of the fuzzer and its target's process at that time.
        """
        self._suspects.begin(cases, earlier)
        _renew(self._fuzzer, self._target)
        for position in failing:
            case, index, death = cases[position], indices[position], deaths.get(position)
            if (known := self._as_known(case, death)) is not None:
                self._tally.sight(known, index)
                continue
            sure = {name for name, seen in self._tally.findings.items() if seen.count >= SURE}
            signature, verdict, plain = diagnosis(
                case, death, self._fuzzer, self._target, self._reference, sure
            )
            found = describe(self._settings, plain, index, signature, lines_of(verdict))
            if signature.startswith(UNSTEADY) and classify(case) in self._target.domains:
                found, index = self._in_company(found, position, indices)
            if found.signature not in self._tally.findings:
                with noting(self._tally.unwritten):
                    self._folder.record(found)
            self._tally.sight(found.signature, index)

    def _as_known(self, case: Case, death: Death | None) -> str | None:
        """The finding that a case is one more sighting of, where that is plain to see.

        Where the target claims nothing, a finding of the same kind whose circumstances the case has
        stands for it, whatever else is open in it.
        """
        if death is not None and death.signature in self._tally.findings:
            return death.signature
        self._hold.look()
        if not self._hold.knows_any:
            return None
        if death is not None:
            return self._hold.explains(death.signature, circumstances(case, len(case.steps) - 1))
        verdict = judge(case, self._target, self._reference)
        return self._hold.explains(verdict.kind, verdict.circumstances)

    def _in_company(
        self, found: Reproducer, position: int, indices: Sequence[int]
    ) -> tuple[Reproducer, int]:
        """The finding with the company that shows it, and the index of the case to blame there."""
        named = self._suspects.of(position)
        if isinstance(named, str):
            return self._rare(replace(found, mismatches=(named,))), indices[position]
        index = indices[named.position]
        shown = replace(
            found,
            case=named.case,
            company=named.company,
            signature=named.verdict.signature,
            mismatches=(company_line(named.company, named.verdict), *lines_of(named.verdict)),
            index=max(index, -1),
        )
        if len(encode_reproducer(shown)) > MAX_FILE_BYTES:
            return replace(found, mismatches=(TOO_MANY,)), indices[position]
        return shown, index

    def _rare(self, found: Reproducer) -> Reproducer:
        """The finding as a flaky one, if its case fails when it is run very often."""
        _renew(self._fuzzer, self._target)
        for case in repeats(found.case, self._target, MOST_RUNS):
            if self._left <= 0:
                break
            self._left -= 1
            verdict = judge(case, self._target, self._reference)
            if not verdict.agrees:
                return replace(
                    found, signature=FLAKY + verdict.signature, mismatches=lines_of(verdict)
                )
        return found


def diagnosis(
    case: Case,
    death: Death | None,
    fuzzer: Fuzzer,
    target: Target,
    reference: Target | None,
    sure: Collection[str] = (),
) -> tuple[str, Verdict, Case]:
    """The signature of a case that differed in a batch, and a verdict on it, which may agree.

    With them the case to keep: its plainest form where it fails every time.

    It is judged alone in a fresh process, and run again and again, as it is, under its own
    schedule: what fails every time has the verdict's signature, what fails sometimes, in fresh
    processes, is flaky. A case that died alone, in the batch and when it was judged, is not run any
    more, nor is one whose signature is of ``sure`` already, fresh process or not.
    """
    if death is None:
        plain_case, plain = plainest(case, judge(case, target, reference), target, reference)
        if plain.signature in sure:
            return plain.signature, plain, plain_case
    fuzzer.renew()
    verdict = judge(case, target, reference)
    plain_case, plain = plainest(case, verdict, target, reference)
    if verdict.signature.startswith(CRASH):
        return plain.signature, plain, plain_case
    failing = fuzzer.failing([case] * REPEATS)
    if not verdict.agrees and len(failing) == REPEATS:
        return plain.signature, plain, plain_case
    for _ in failing if verdict.agrees else ():
        _renew(fuzzer, target)
        verdict = judge(case, target, reference)
        if not verdict.agrees:
            break
    if not verdict.agrees:
        return FLAKY + verdict.signature, verdict, case
    return f"{UNSTEADY}: {death.signature}" if death else UNSTEADY, verdict, case


def _renew(fuzzer: Fuzzer, target: Target) -> None:
    """Let what runs next have a fresh process, where that costs milliseconds."""
    if target.device == "cpu":
        fuzzer.renew()
