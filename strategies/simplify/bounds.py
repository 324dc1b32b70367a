"""The pass that brings a hardened case back to what every implementation agrees on."""

from __future__ import annotations

from msgspec.structs import replace

from ..case import Case, Column, CorruptStep, Step, VerifyStep, WriteStep
from ..columns import expand
from .cuts import MAX_SPELT, map_column, replace_step
from .problem import Problem


def into_bounds(problem: Problem) -> None:
    """Counts, offsets, slots and indices into their ranges, all in one try, else step by step.

    Out of range they mean what the values here mean (contract, section 8), so most failures that
    do not need section 8 survive this.
    """
    case = problem.case
    plain = replace(case, violation_write_index=0, slot_run_counter=0, kernel_run_counter=0)
    steps = tuple(bounded(case, step) for step in case.steps)
    if problem.attempt(replace(plain, steps=steps)) or problem.attempt(replace(case, steps=steps)):
        return
    for number, step in enumerate(steps):
        problem.attempt(replace_step(problem.case, number, step))


def bounded(case: Case, step: Step) -> Step:
    """The step with its counts, offsets and slots in their ranges."""

    def slots(column: Column, otherwise: int) -> Column:
        return map_column(column, lambda slot: slot if slot < case.num_slots else otherwise)

    if isinstance(step, WriteStep):
        capacity = step.write_seed_slot_indices.length
        return replace(
            step,
            write_num_valid_reqs=min(max(step.write_num_valid_reqs, 0), capacity),
            write_offsets=_rising(step.write_offsets, step.input_ids.length),
            write_seed_slot_indices=slots(step.write_seed_slot_indices, -1),
            out_cache_loc=slots(step.out_cache_loc, -1),
        )
    if isinstance(step, CorruptStep):
        return step
    return _bounded_verify(case, step)


def _bounded_verify(case: Case, step: VerifyStep) -> VerifyStep:
    def slots(column: Column, lowest: int) -> Column:
        return map_column(column, lambda slot: slot if lowest <= slot < case.num_slots else 0)

    capacity = step.verify_slot_indices.length
    return replace(
        step,
        verify_num_valid=min(max(step.verify_num_valid, 0), capacity),
        verify_slot_indices=slots(step.verify_slot_indices, 0),
        verify_prev_slot_indices=slots(step.verify_prev_slot_indices, -(2**63)),
    )


def _rising(offsets: Column, most: int) -> Column:
    """Offsets from 0 to ``most`` that never fall."""
    if offsets.length > MAX_SPELT:
        return map_column(offsets, lambda offset: min(max(offset, 0), most))
    reached, rising = 0, []
    for offset in expand(offsets):
        reached = max(reached, min(offset, most))
        rising.append(reached)
    return Column(values=tuple(rising), length=offsets.length)
