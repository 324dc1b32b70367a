"""Which basic blocks of the CUDA source a case runs, seen in an emulated build that traces them."""

from __future__ import annotations

from collections.abc import Callable

from kv_canary_fuzz.strategies.case import Case
from kv_canary_fuzz.strategies.prng import case_at

from ..execution.arena import allocate, fill, lay_out_batch
from ..execution.execution import run_target
from ..execution.tensors import Memory
from ..targets.builtin import load_traced_target

BlocksOf = Callable[[Case], frozenset[int]]
"""The basic blocks of one case, as numbers that mean the same within one process."""


def no_blocks(_: Case) -> frozenset[int]:
    """For a machine that cannot trace them."""
    return frozenset()


def block_trace() -> BlocksOf:
    """Runs cases on the emulated kernels. Raises TargetError where those cannot be built."""
    target, take_blocks = load_traced_target()

    def blocks_of(case: Case) -> frozenset[int]:
        batch = lay_out_batch([case])
        buffer = allocate(batch.size)
        fill(batch, buffer)
        take_blocks()
        run_target(target, batch, Memory(buffer, "cpu"))
        return take_blocks()

    blocks_of(case_at(seed=0, index=0))  # what the first launch of a process runs is no case's own
    return blocks_of
