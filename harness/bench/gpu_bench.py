"""The kernels' speed on a GPU, beside sglang's and beside what the hardware allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from kv_canary_fuzz.reference import VerifyLaunch, WriteLaunch

from ..targets.builtin import load_limits
from ..targets.target import Target
from .gpu_launches import SHAPES, Shape, verify_launch, write_launch
from .gpu_timing import captured, copy_bytes_per_us, host_us, median_us

Launch = WriteLaunch | VerifyLaunch

HOLD_TOKENS = 100_000
"""A chain of this many tokens takes some milliseconds."""

MOST_SETS = 16
L2_TIMES = 4
"""Input sets are taken in turn, as many as fill the L2 cache this many times."""


class BenchError(Exception):
    """A target does a launch that was to be timed wrongly; the message is one line."""


@dataclass(frozen=True)
class Limits:
    """What bounds a launch on this device, in microseconds and bytes."""

    empty_us: float
    chain_us_per_token: float
    copy_bytes_per_us: float

    def of(self, shape: Shape) -> tuple[float, str]:
        """The highest limit of a launch, and its name.

        A chain is timed from launch to end; bytes are those over the bandwidth of a long copy.
        """
        return max(
            (self.empty_us, "an empty replay"),
            (self.empty_us + self.chain_us_per_token * shape.chain_tokens, "chain"),
            (shape.moved_bytes / self.copy_bytes_per_us, "bytes"),
        )


@dataclass(frozen=True)
class Line:
    """One launch of the table, in microseconds; ``theirs_us`` is None without sglang."""

    launch: str
    theirs_us: float | None
    limit_us: float
    limit: str
    ours_us: float
    at_most_us: float

    @property
    def holds(self) -> bool:
        return self.ours_us <= self.at_most_us

    @property
    def cells(self) -> tuple[str, ...]:
        theirs = "-" if self.theirs_us is None else f"{self.theirs_us:,.1f}"
        return (
            self.launch,
            theirs,
            f"{self.limit_us:,.1f} ({self.limit})",
            f"{self.ours_us:,.1f}",
            f"{self.at_most_us:,g}" + ("" if self.holds else ", missed"),
        )


class Bencher:
    """Times the table's launches on the current GPU for a target and, where given, for another."""

    def __init__(self, ours: Target, theirs: Target | None, *, shuffled: bool = False) -> None:
        self._ours, self._theirs, self._shuffled = ours, theirs, shuffled
        self._kernels = load_limits()
        self._l2_bytes = torch.cuda.get_device_properties().L2_cache_size
        self._kernels.nothing()
        self._hold()

    def limits(self) -> Limits:
        """What bounds every launch, measured now."""
        tokens = 4096
        empty = self._graph_us(self._kernels.nothing)
        chain = self._graph_us(lambda: self._kernels.mix_chain(tokens))
        return Limits(empty, (chain - empty) / tokens, copy_bytes_per_us())

    def lines(self, limits: Limits, shapes: tuple[Shape, ...] = SHAPES) -> Iterator[Line]:
        """The table, line by line. Raises BenchError where a target does not do what it should."""
        for shape in shapes:
            launches = self._launches(shape)
            ours = self._time(self._ours, shape, launches)
            stamped = launches[0].context.canary_buf.clone()
            theirs = None
            if self._theirs is not None:
                theirs = self._time(self._theirs, shape, launches)
                if not torch.equal(launches[0].context.canary_buf, stamped):
                    raise BenchError(f"{shape}: {self._theirs.name} stamps other bytes")
            bound, name = limits.of(shape)
            yield Line(str(shape), theirs, bound, name, ours, shape.at_most_us)
            del launches, stamped
            torch.cuda.empty_cache()

    def host_times(self) -> dict[str, float]:
        """What a small write launch takes on the host, by target."""
        shape = next(shape for shape in SHAPES if shape.tokens == 1)
        launch = write_launch(shape)
        targets = [self._ours] + ([self._theirs] if self._theirs else [])
        return {target.name: host_us(_launcher(target, launch)) for target in targets}

    def _launches(self, shape: Shape) -> list[Launch]:
        wanted = -(-L2_TIMES * self._l2_bytes // shape.moved_bytes)
        written = [
            write_launch(shape, shuffled=self._shuffled)
            for _ in range(min(max(wanted, 1), MOST_SETS))
        ]
        if shape.kind == "write":
            return list(written)
        for launch in written:
            self._ours.write(**launch.arguments())
        return [verify_launch(launch, shape) for launch in written]

    def _time(self, target: Target, shape: Shape, launches: list[Launch]) -> float:
        context = launches[0].context
        if shape.kind == "write":
            context.canary_buf.zero_()
        _launcher(target, launches[0])()
        graphs = [captured(_launcher(target, launch)) for launch in launches]
        microseconds = median_us(graphs, self._hold)
        if int(context.violation_write_index):
            raise BenchError(f"{shape}: {target.name} reports violations where there are none")
        return microseconds

    def _graph_us(self, launch: Callable[[], None]) -> float:
        launch()
        return median_us([captured(launch)], self._hold)

    def _hold(self) -> None:
        self._kernels.mix_chain(HOLD_TOKENS)


def _launcher(target: Target, launch: Launch) -> Callable[[], None]:
    arguments = launch.arguments()
    kernel = target.write if isinstance(launch, WriteLaunch) else target.verify
    return lambda: kernel(**arguments)
