"""The board: every bug that is asked for, from every seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median_low

import msgspec
from msgspec import Struct

from ..targets.builtin import planted_bugs
from ..targets.target import TargetError
from .hunt import Hunt, Kill
from .hunters import run_hunts

MOST_CASES = 20_000
SEEDS = (1, 2, 3, 4, 5)


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
    kills = run_hunts(hunts, workers, show)
    return [
        Standing(
            name=bug.name,
            kind=bug.kind,
            description=bug.description,
            kills=tuple(kills[bug.name, seed] for seed in seeds),
        )
        for bug in chosen
    ]
