"""One case on a target's memory, advanced step by step."""

from __future__ import annotations

from functools import partial

from kv_canary_fuzz.strategies.case import Case

from ..targets.target import Target
from .binding import Binder
from .execution import step_target
from .launching import launching_of, play
from .layout import Layout
from .outcome import Raised
from .tensors import Memory


class Stepper:
    """Runs the steps of a case that lies at the start of ``memory``, one after the other.

    Launches that are not put eagerly are put anew from the first on, as a batch would.
    """

    def __init__(self, case: Case, layout: Layout, target: Target, memory: Memory) -> None:
        self._case = case
        self._layout = layout
        self._target = target
        self._part = memory.part(0, layout.size)
        self._step = partial(step_target, target, case, Binder(case, layout, memory, 0))
        eager = launching_of(case, target) == "eager"
        self._contents = None if eager else self._part.copy()
        if target.set_schedule is not None:
            target.set_schedule(case.schedule)

    def advance(self, number: int) -> Raised | None:
        """Run step ``number``, the one behind the last that was run."""
        if self._contents is None:
            return self._step(number)
        self._part.put(self._contents)
        played = play(self._case, self._layout, self._target, self._part, self._step, number)
        return played.outcome().get(number)
