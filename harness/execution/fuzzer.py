"""The fast path: from case indices to the few cases whose two outcomes differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from time import perf_counter
from typing import NamedTuple

import numpy as np

from kv_canary_fuzz.strategies.case import Case
from kv_canary_fuzz.strategies.features.features import features
from kv_canary_fuzz.strategies.knowledge.expected import expected_bits
from kv_canary_fuzz.strategies.prng import case_at

from ..isolation.isolation import Isolation
from ..judging.comparison import differing_cases
from ..judging.expectation import expectation_broken
from ..judging.own_rows import own_rows
from ..targets.target import Target
from .arena import Batch, Bytes, allocate, fill, lay_out_batch
from .execution import Run, run_reference, run_target
from .outcome import Death
from .tensors import Memory


class StageSeconds(NamedTuple):
    """Where the time of the fast path went."""

    generate: float = 0.0
    fill: float = 0.0
    reference: float = 0.0
    target: float = 0.0
    compare: float = 0.0

    def plus(self, other: StageSeconds) -> StageSeconds:
        return StageSeconds(*(a + b for a, b in zip(self, other, strict=True)))


class Fuzzer:
    """Runs batches of generated cases on a target and on a reference.

    ``reference`` None is the torch reference, which alone runs a batch at once; any other target
    can stand in its place. Then the torch reference's rows only save asking that target for its
    own where they explain all that differs. ``deaths`` has the cases of the last batch that ended
    the process of an isolated target.
    """

    def __init__(self, target: Target, reference: Target | None = None) -> None:
        self._target = target
        self._reference = reference
        self._buffers = [allocate(0)] * 3
        self.stages = StageSeconds()
        self.deaths: dict[int, Death] = {}

    def generate(self, seed: int, indices: Iterable[int], domain: str) -> list[Case]:
        started = perf_counter()
        contract = self._target.contract
        cases = [case_at(seed, index, domain, contract) for index in indices]
        self.stages = self.stages.plus(StageSeconds(generate=perf_counter() - started))
        return cases

    def failing(self, cases: Sequence[Case]) -> list[int]:
        """Positions in ``cases`` of those that differ or contradict what the grammar knows."""
        times = [perf_counter()]
        batch = lay_out_batch(cases)
        expected, found, other = self._fresh_buffers(batch)
        times.append(perf_counter())
        for target in self._isolated():
            target.start(batch)
        run = run_reference(batch, Memory(expected, "cpu"), self._target.contract)
        base = run
        if self._reference is not None:
            base, expected = self._run(self._reference, batch, other)
        times.append(perf_counter())
        target_run, found = self._run(self._target, batch, found)
        times.append(perf_counter())
        self.deaths = base.deaths | target_run.deaths
        compared = Run(raised=base.raised, rows=run.rows)
        differing = set(differing_cases(batch, compared, target_run, expected, found))
        if self._reference is not None and differing:
            for position in differing:
                for step, rows in enumerate(own_rows(cases[position], self._reference)):
                    compared.rows[position, step] = rows
            differing = set(differing_cases(batch, compared, target_run, expected, found))
        differing.update(self.deaths)
        contract = self._target.contract
        for position, case in enumerate(cases if self._reference is None else ()):
            if expectation_broken(expected_bits(case, contract), run, position):
                differing.add(position)
        times.append(perf_counter())
        fill_s, reference_s, target_s, compare_s = np.diff(times).tolist()
        self.stages = self.stages.plus(StageSeconds(0.0, fill_s, reference_s, target_s, compare_s))
        return sorted(differing)

    def _run(self, target: Target, batch: Batch, buffer: Bytes) -> tuple[Run, Bytes]:
        if target.isolation is not None:
            return target.isolation.finish()
        memory = Memory(buffer, target.device)
        run = run_target(target, batch, memory)
        return run, memory.read(0, batch.size)

    def earlier(self) -> tuple[Case, ...]:
        """What an isolated target's process had run before the last batch, as far as is known."""
        isolation = self._target.isolation
        return () if isolation is None else isolation.earlier()

    def outgrown(self) -> int:
        """Processes of isolated targets that were replaced because their memory had grown."""
        return sum(side.outgrown for side in self._isolated())

    def prepare(self) -> None:
        """Let isolated targets be loaded while cases are made."""
        for side in self._isolated():
            side.begin()

    def close(self) -> None:
        """Let the processes of isolated targets end; they are replaced where that is needed."""
        for side in self._isolated():
            side.let_go()

    def _isolated(self) -> list[Isolation]:
        """Who runs in other processes, so at the same time as the rest."""
        sides = (self._target, self._reference)
        return [side.isolation for side in sides if side is not None and side.isolation is not None]

    def _fresh_buffers(self, batch: Batch) -> tuple[Bytes, Bytes, Bytes]:
        if self._buffers[0].size < batch.size:
            self._buffers = [allocate(batch.size * 5 // 4 // 64 * 64 + 64) for _ in range(3)]
        first, second, third = (buffer[: batch.size] for buffer in self._buffers)
        if self._target.isolation is not None:
            second = self._target.isolation.arena(batch.size)
        if self._reference is not None and self._reference.isolation is not None:
            third = self._reference.isolation.arena(batch.size)
        fill(batch, first)
        second[:] = first
        if self._reference is not None:
            third[:] = first
        return first, second, third


def count_features(cases: Iterable[Case]) -> Counter[str]:
    """In how many of the cases each feature occurs."""
    return Counter(name for case in cases for name in features(case))
