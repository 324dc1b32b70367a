"""Putting the launches of one case to a target: eagerly, on a side stream, or as a graph.

The last two begin over other contents. On a side stream those of the case are put in late, so what
goes to another stream by mistake sees the wrong ones. A graph is captured over them after a first
run there, which builds what is built at a first launch; then it is replayed over the case's
contents, twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch

from kv_canary_fuzz.strategies.case import Case, Launching

from ..targets.memory import pass_on_lack
from ..targets.streams import Streams
from ..targets.target import Target
from .arena import Bytes
from .layout import Layout
from .outcome import Raised
from .replays import replays_differ
from .tensors import Part

Step = Callable[[int], Raised | None]
"""Runs a step of the case, by its number, on the memory where it lies."""

REPLAYS_DIFFER = "ReplaysDiffer"
NOT_CAPTURED = "NotCaptured"


class Replays(NamedTuple):
    """The bytes after the first replay of a graph and after the second, and whether any differ.

    The graph is kept until the device is done with it.
    """

    first: torch.Tensor
    second: torch.Tensor
    differ: torch.Tensor
    graph: Callable[[], None]


@dataclass(frozen=True)
class Played:
    """What the steps of a case raised so far; whether its replays agree is only asked at the end,
    since that waits for the device."""

    case: Case
    layout: Layout
    last: int
    raised: dict[int, Raised] = field(default_factory=dict)
    replays: Replays | None = None

    def outcome(self) -> dict[int, Raised]:
        """What was raised, by step. Replays that differ are raised by the last step."""
        if self.replays is None or not bool(self.replays.differ):
            return self.raised
        first, second = map(_host, self.replays[:2])
        place = replays_differ(self.case, self.layout, first, second)
        if not place:
            return self.raised
        fault = Raised(REPLAYS_DIFFER, f"two replays of one graph left different bytes in {place}")
        return {**self.raised, self.last: fault}


def launching_of(case: Case, target: Target) -> Launching:
    """How the target takes the case's launches: as the case says, where it can."""
    streams = target.streams
    if streams is None or (case.launching == "graph" and not streams.captures):
        return "eager"
    return case.launching


def play(case: Case, layout: Layout, target: Target, part: Part, step: Step, last: int) -> Played:
    """Run steps 0 to ``last`` of the case, whose bytes before the first are in ``part``."""

    def run() -> dict[int, Raised]:
        outcomes = ((number, step(number)) for number in range(last + 1))
        return {number: raised for number, raised in outcomes if raised is not None}

    launching, streams = launching_of(case, target), target.streams
    if launching == "eager" or streams is None:
        return Played(case, layout, last, run())
    contents = part.copy()
    part.blank()
    if launching == "graph":
        run()
        return _replayed(Played(case, layout, last), part, contents, streams, run)
    with streams.aside():
        part.put(contents)
        return Played(case, layout, last, run())


def _replayed(
    played: Played,
    part: Part,
    contents: torch.Tensor,
    streams: Streams,
    run: Callable[[], dict[int, Raised]],
) -> Played:
    try:
        replay = streams.captured(lambda: played.raised.update(run()))
    except RuntimeError as error:
        pass_on_lack(error, "a graph of launches")
        played.raised[played.last] = Raised(NOT_CAPTURED, f"{type(error).__name__}: {error}")
        return played
    after = []
    for _ in range(2):
        part.put(contents)
        replay()
        after.append(part.copy())
    first, second = after
    return replace(played, replays=Replays(first, second, (first != second).any(), replay))


def _host(data: torch.Tensor) -> Bytes:
    return data.cpu().numpy()
