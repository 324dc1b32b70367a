"""What a CUDA device can do with launches besides taking them as they come."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

import torch

_DELAY_CYCLES = 1_200_000
"""About 0.7 ms on a GPU: longer than the host takes to get from there to the first launch."""


class Streams(Protocol):
    """A second stream, and graphs of launches. ``captures`` says whether the target allows those.

    A target's launches and a memory's changes go to the stream that is current.
    """

    captures: bool

    def aside(self) -> AbstractContextManager[None]:
        """A side stream is current, which begins behind everything put so far, and late; what is
        put on the former stream afterwards waits for it."""
        ...

    def captured(self, work: Callable[[], None]) -> Callable[[], None]:
        """Capture what ``work`` puts on a stream; calling the result puts it on the current one.

        Raises RuntimeError where something in it cannot be captured.
        """
        ...


class CudaStreams:
    """`Streams` of a CUDA device, as torch spells it; nothing is made before it is needed."""

    def __init__(self, device: str, *, captures: bool) -> None:
        self.captures = captures
        self._device = torch.device(device)
        self._side: torch.cuda.Stream | None = None
        self._latest: torch.cuda.CUDAGraph | None = None
        self._kept: list[torch.cuda.CUDAGraph] = []

    @contextmanager
    def aside(self) -> Iterator[None]:
        with self._on_side_stream():
            torch.cuda._sleep(_DELAY_CYCLES)  # type: ignore[no-untyped-call]
            yield

    def captured(self, work: Callable[[], None]) -> Callable[[], None]:
        graph = torch.cuda.CUDAGraph()
        # Graphs share one pool of memory, which lasts as long as any graph that uses it. A capture
        # that fails leaves its pool, and what torch knows of it, unusable: the next has a new one.
        latest, self._latest = self._latest, None
        pool = None if latest is None else latest.pool()
        self._kept.append(graph)
        with self._on_side_stream():
            graph.capture_begin(pool)
            try:
                work()
            finally:
                with warnings.catch_warnings():  # a graph of refused launches is empty
                    warnings.simplefilter("ignore", UserWarning)
                    graph.capture_end()
        self._latest = self._kept.pop()

        def replay() -> None:
            with torch.cuda.device(self._device):
                graph.replay()

        return replay

    @contextmanager
    def _on_side_stream(self) -> Iterator[None]:
        if self._side is None:
            self._side = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        main = torch.cuda.current_stream(self._device)
        self._side.wait_stream(main)
        with torch.cuda.stream(self._side):
            yield
        main.wait_stream(self._side)
