"""What makes a case illegal or open: the inputs of the contract's sections 7 and 8 in it, by name.

A target that does not claim these sections may fail on each in a way of its own, so they are part
of what tells its failures apart.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from .case import Case, Column, CorruptStep, VerifyStep, WriteStep
from .classify import Domain, classify
from .features.hardened import state_features, verify_features, write_features
from .simplify.bounds import bounded

_PREFIX = "hardened_"
_OFFSETS = ("offsets:descending", "offsets:beyond", "offsets:negative")
"""Of these the first stands for the others: offsets that are wrong in one way often are in all."""

OTHER = "other open inputs"
_STATE = ("violation_write_index", "slot_run_counter", "kernel_run_counter")


def circumstances(case: Case, last: int) -> tuple[str, ...]:
    """Names such as ``offsets descending`` and ``fault dtype``, sorted, up to step ``last``."""
    found: set[str] = set()
    state_features(case, found)
    for step in case.steps[: last + 1]:
        if isinstance(step, CorruptStep):
            continue
        if step.faults:
            found.update(f"fault:{fault.kind}" for fault in step.faults)
        elif isinstance(step, WriteStep):
            write_features(case, step, found)
        else:
            verify_features(case, step, found)
    names = {name.removeprefix(_PREFIX) for name in found}
    for name in [name for name in _OFFSETS if name in names][1:]:
        names.remove(name)
    if not names and classify(replace(case, steps=case.steps[: last + 1])) is not Domain.VALID:
        names.add(OTHER)
    return tuple(sorted(name.replace(":", " ") for name in names))


def plainer(case: Case) -> Iterator[Case]:
    """The case with one step less, one fault less, or one of its numbers brought into bounds."""
    for number, step in enumerate(case.steps):
        others = case.steps[:number], case.steps[number + 1 :]
        if len(case.steps) > 1:
            yield replace(case, steps=others[0] + others[1])
        if isinstance(step, CorruptStep):
            continue
        for changed in _plainer_steps(case, step):
            yield replace(case, steps=(*others[0], changed, *others[1]))
    for name in _STATE:
        if getattr(case, name):
            yield replace(case, **{name: 0})


def _plainer_steps(case: Case, step: WriteStep | VerifyStep) -> Iterator[WriteStep | VerifyStep]:
    for k in range(len(step.faults)):
        yield replace(step, faults=step.faults[:k] + step.faults[k + 1 :])
    inside = bounded(case, step)
    for name in step.__struct_fields__:
        value = getattr(inside, name)
        if isinstance(value, int | Column) and value != getattr(step, name):
            yield replace(step, **{name: value})
    if isinstance(step, WriteStep) and step.enable_chain_position_assert:
        yield replace(step, enable_chain_position_assert=0)
