"""The plainest way of running a case: put eagerly, every tensor at a multiple of 64."""

from __future__ import annotations

from msgspec.structs import replace

from ..case import LAUNCHINGS, Case, Launching
from .problem import Problem, first

_SHIFTS = (0, 4, 8, 16, 32)


def plain_launching(problem: Problem) -> None:
    """Put launches more plainly, then bring the shift down; both at once before all else."""
    case = problem.case
    if problem.attempt(replace(case, launching=LAUNCHINGS[0], shift=0)):
        return
    first(problem, (replace(case, launching=name) for name in _plainer(case)))
    case = problem.case
    first(problem, (replace(case, shift=shift) for shift in _SHIFTS if shift < case.shift))


def _plainer(case: Case) -> tuple[Launching, ...]:
    return LAUNCHINGS[: LAUNCHINGS.index(case.launching)]
