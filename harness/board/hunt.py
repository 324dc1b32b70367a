"""One planted bug, looked for in the cases of one seed."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from time import monotonic

from msgspec import Struct

from kv_canary_fuzz.strategies.case import Case

from ..campaign.blame import UNSTEADY
from ..campaign.settings import DomainName, Settings
from ..execution.fuzzer import Fuzzer
from ..findings.provenance import describe
from ..findings.shrunk_file import shrink_to_file
from ..judging.own_rows import entries_of
from ..judging.verdict import judge
from ..targets.builtin import PLANTED_PREFIX, load_target
from ..targets.target import Target

_FIRST_BATCH = 16
_BATCH = 128
_SHRINK_SECONDS = 30.0


class Hunt(Struct, frozen=True):
    """One bug, looked for in the cases of one seed; ``shrink`` asks for a reproducer."""

    bug: str
    seed: int
    most_cases: int
    shrink: bool


class Reduced(Struct, frozen=True):
    """The size of a shrunk reproducer: steps, entries of all plans, bytes of the file."""

    steps: int
    entries: int
    bytes: int


class Kill(Struct, frozen=True):
    """What a hunt came to: ``cases`` until the bug was found, None where it was not.

    Where the process was lost, they go to the end of the batch that it was at.
    """

    cases: int | None
    seconds: float
    signature: str = ""
    reduced: Reduced | None = None


def hunt(wanted: Hunt, told: Callable[[int], None]) -> Kill:
    """Run cases until one fails; ``told`` gets the end of each batch before it runs."""
    target = load_target(PLANTED_PREFIX + wanted.bug)
    fuzzer = Fuzzer(target)
    started = monotonic()
    first, size = 0, _FIRST_BATCH
    while first < wanted.most_cases:
        last = min(first + size, wanted.most_cases)
        told(last)
        cases = fuzzer.generate(wanted.seed, range(first, last), DomainName.ALL)
        failing = fuzzer.failing(cases)
        if failing:
            seconds = monotonic() - started
            return _kill(wanted, target, cases[failing[0]], first + failing[0], seconds)
        first, size = last, min(2 * size, _BATCH)
    return Kill(cases=None, seconds=monotonic() - started)


def _kill(wanted: Hunt, target: Target, case: Case, index: int, seconds: float) -> Kill:
    signature = judge(case, target).signature or UNSTEADY
    reduced = None
    if wanted.shrink and signature != UNSTEADY:
        reduced = _reduce(wanted, target, case, index, signature)
    return Kill(cases=index + 1, seconds=seconds, signature=signature, reduced=reduced)


def _reduce(wanted: Hunt, target: Target, case: Case, index: int, signature: str) -> Reduced:
    settings = Settings(target=target.name, domain=DomainName.ALL, seed=wanted.seed)
    original = describe(settings, case, index, signature, ())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "shrunk.kvcase.json"
        small = shrink_to_file(original, target, None, path, _SHRINK_SECONDS).case
        return Reduced(steps=len(small.steps), entries=entries_of(small), bytes=path.stat().st_size)
