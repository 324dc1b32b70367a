"""The board of planted bugs: how many cases it takes to find each, from several seeds.

Hunts run in worker processes: a bug that kills its process, or never comes back, counts as found,
and takes no other hunt with it.
"""

from __future__ import annotations

import multiprocessing
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from statistics import median_low
from time import monotonic

import msgspec
import torch
from msgspec import Struct

from kv_canary_fuzz.strategies.case import Case

from .campaign.finish import shrink_to_file
from .campaign.settings import DomainName, Settings
from .campaign.shard import UNSTEADY
from .execution.fuzzer import Fuzzer
from .findings.provenance import describe
from .judging.own_rows import entries_of
from .judging.verdict import judge
from .targets.builtin import PLANTED_PREFIX, load_target, planted_bugs
from .targets.target import Target, TargetError

MOST_CASES = 20_000
SEEDS = (1, 2, 3, 4, 5)
CRASH = "crash"
HANG = "hang"
HANG_SECONDS = 120.0
"""A worker that says nothing for so long hangs; builds and shrinking take a fraction of it."""

HUNTS_PER_WORKER = 16
"""A build takes some 2,000 memory mappings for its stacks, and a process may have 65,530."""

_FIRST_BATCH = 16
_BATCH = 128
_SHRINK_SECONDS = 30.0


class BoardError(Exception):
    """A board that cannot be finished; the worker at fault has said why."""


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


class Standing(Struct, frozen=True):
    """One bug's line of the board; ``kills`` are in the order of the seeds."""

    name: str
    kind: str
    description: str
    kills: tuple[Kill, ...]

    @property
    def found(self) -> bool:
        """Whether every seed found it."""
        return all(kill.cases is not None for kill in self.kills)

    @property
    def median_cases(self) -> int | None:
        """The median over the seeds; None where more than half did not find it."""
        never = MOST_CASES * 1000
        median = median_low(never if k.cases is None else k.cases for k in self.kills)
        return None if median == never else median

    @property
    def seconds(self) -> float:
        """The median time of a hunt, without shrinking."""
        return median_low(kill.seconds for kill in self.kills)

    @property
    def shown(self) -> Kill:
        """The hunt that was shrunk, or else the first that found something."""
        found = (kill for kill in self.kills if kill.signature)
        return next((k for k in self.kills if k.reduced), next(found, self.kills[0]))


def known_bugs(asked: Sequence[str]) -> list[str]:
    """The planted bugs that are asked for by name or kind; all where nothing is.

    Raises TargetError for a word that is neither.
    """
    bugs = planted_bugs()
    for word in asked:
        if not any(word in (bug.name, bug.kind) for bug in bugs):
            kinds = ", ".join(dict.fromkeys(bug.kind for bug in bugs))
            raise TargetError(f"{word!r} is no planted bug and no kind; the kinds are {kinds}")
    return [bug.name for bug in bugs if not asked or bug.name in asked or bug.kind in asked]


def board_json(standings: Sequence[Standing]) -> bytes:
    """The figures of a board."""
    return msgspec.json.format(msgspec.json.encode(standings))


def run_board(
    names: Sequence[str],
    seeds: Sequence[int] = SEEDS,
    *,
    workers: int,
    most_cases: int = MOST_CASES,
    show: Callable[[int], None],
) -> list[Standing]:
    """Hunt every named bug from every seed, and shrink what the first seed finds.

    ``show`` gets how many hunts are done. Raises KeyError for an unknown name.
    """
    bugs = {bug.name: bug for bug in planted_bugs()}
    chosen = [bugs[name] for name in names]
    hunts = [
        Hunt(bug=bug.name, seed=seed, most_cases=most_cases, shrink=number == 0)
        for bug in chosen
        for number, seed in enumerate(seeds)
    ]
    kills = _run_hunts(hunts, workers, show)
    return [
        Standing(
            name=bug.name,
            kind=bug.kind,
            description=bug.description,
            kills=tuple(kills[bug.name, seed] for seed in seeds),
        )
        for bug in chosen
    ]


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


class _Hunter:
    """A worker process, the hunt that it is on, and what it last said."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process: SpawnProcess = context.Process(target=_work, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()
        self.wanted: Hunt | None = None
        self._heard = self._began = monotonic()
        self._under_way = 0
        self._hunts = 0

    @property
    def spent(self) -> bool:
        """Whether it is between hunts and cannot take another."""
        over = self._hunts >= HUNTS_PER_WORKER or not self.process.is_alive()
        return self.wanted is None and over

    def send(self, wanted: Hunt) -> None:
        self._hunts += 1
        self.wanted, self._under_way = wanted, 0
        self._heard = self._began = monotonic()
        self.pipe.send(wanted)

    def listen(self) -> Kill | None:
        """The hunt's end, where it has come: told by the worker, or by its death or silence."""
        try:
            while self.pipe.poll():
                said = self.pipe.recv()
                self._heard = monotonic()
                if isinstance(said, Kill):
                    return said
                self._under_way = said
        except (EOFError, ConnectionError):
            return self._lost(CRASH)
        return self._lost(HANG) if monotonic() - self._heard > HANG_SECONDS else None

    def _lost(self, signature: str) -> Kill:
        """What a worker that says nothing any more found; BoardError where it was at fault."""
        if signature == HANG:
            self.end()
        self.process.join()
        status = self.process.exitcode
        if status is not None and status >= 0:
            raise BoardError(f"a worker of the board ended with status {status}")
        return Kill(cases=self._under_way, seconds=monotonic() - self._began, signature=signature)

    def end(self) -> None:
        self.process.kill()


def _run_hunts(
    hunts: Sequence[Hunt], workers: int, show: Callable[[int], None]
) -> dict[tuple[str, int], Kill]:
    left = list(reversed(hunts))
    kills: dict[tuple[str, int], Kill] = {}
    hunters = [_Hunter() for _ in range(min(workers, len(hunts)))]
    try:
        while len(kills) < len(hunts):
            for number, hunter in enumerate(hunters):
                if hunter.wanted is not None and (kill := hunter.listen()) is not None:
                    kills[hunter.wanted.bug, hunter.wanted.seed] = kill
                    hunter.wanted = None
                    show(len(kills))
                if hunter.spent and left:
                    hunter.end()
                    hunter = hunters[number] = _Hunter()
                if hunter.wanted is None and left:
                    hunter.send(left.pop())
            wait(_pipes(hunters), timeout=1.0)
    finally:
        for hunter in hunters:
            hunter.end()
    return kills


def _pipes(hunters: Iterable[_Hunter]) -> list[Connection]:
    return [hunter.pipe for hunter in hunters if hunter.wanted is not None]


def _work(pipe: Connection) -> None:
    torch.set_num_threads(1)
    with suppress(EOFError):
        while True:
            pipe.send(hunt(pipe.recv(), pipe.send))
