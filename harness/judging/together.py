"""The verdict on a case in the company of others: one batch, run by a fresh process."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from kv_canary_fuzz.strategies.case import Case

from ..execution.arena import Batch, Bytes, allocate, fill, lay_out_batch
from ..execution.execution import Run, run_reference, run_target
from ..execution.tensors import Memory
from ..isolation.loading import disposable
from ..targets.target import Target
from .company import COMPANY, Company
from .differences import differences
from .mismatch import Mismatch, Rank, first_cause
from .own_rows import own_rows
from .verdict import Verdict, exception_mismatch, signature_of, unclaimed

ASTRAY = "memory of other cases"
"""The kind of a difference that a case leaves outside of its own memory, guard bands and all."""


class Part(NamedTuple):
    """What a batch did to one of its cases: the bytes before and after, and the run of all."""

    run: Run
    position: int
    initial: Bytes
    bytes: Bytes


def run_together(target: Target, batch: Batch) -> tuple[Run, Bytes, Bytes]:
    """Run a batch in a fresh process: what its steps did, and the bytes before and after.

    A target that has no process but this one runs here, on fresh memory. Raises TargetError.
    """
    target = disposable(target)
    if target.isolation is None:
        memory = allocate(batch.size)
        fill(batch, memory)
        initial = memory.copy()
        on_device = Memory(memory, target.device)
        run = run_target(target, batch, on_device)
        return run, initial, on_device.read(0, batch.size)
    target.isolation.let_go()
    memory = target.isolation.arena(batch.size)
    fill(batch, memory)
    initial = memory.copy()
    target.isolation.start(batch)
    run, found = target.isolation.finish()
    found = found.copy()
    target.isolation.let_go()
    return run, initial, found


def judge_in_company(
    case: Case, company: Company, target: Target, reference: Target | None = None
) -> Verdict:
    """Run ``case`` in its company and look at its own bytes, after as few steps as show a fault.

    Where those agree and nothing but the case launches anything, the memory of the others is looked
    at: whatever changed there, the case has changed.
    """
    verdict = _judge_steps(case, company, target, reference, len(case.steps))
    if verdict.agrees:
        return verdict
    for steps in range(1, len(case.steps)):
        earlier = _judge_steps(case, company, target, reference, steps)
        if not earlier.agrees:
            return earlier
    return verdict


def differs_in_company(
    case: Case, company: Company, target: Target, reference: Target | None = None
) -> bool:
    """Whether `judge_in_company` finds something; in one run."""
    return not _judge_steps(case, company, target, reference, len(case.steps)).agrees


def _judge_steps(
    case: Case, company: Company, target: Target, reference: Target | None, steps: int
) -> Verdict:
    """The verdict after the first ``steps``, as if there were no more."""
    case = replace(case, steps=case.steps[:steps])
    batch, position = lay_out_batch(company.around(case)), len(company.before)
    run, before, after = run_together(target, batch)
    layout, base = batch.layouts[position], batch.bases[position]
    inside = slice(base, base + layout.size)
    part = Part(run, position, before[inside], after[inside])
    expected, number, found = _own_differences(case, batch, part, target, reference)
    prefix = COMPANY
    if not found and company.silent and steps:
        found, prefix = _stray(before, after, base, layout.size), ""
    ordered = tuple(first_cause(found if steps else []))
    open_inputs = unclaimed(case, number, target) if ordered else ()
    signature = signature_of(case.steps[number], ordered[0], open_inputs) if ordered else ""
    return Verdict(
        step=number if ordered else -1,
        mismatches=ordered,
        signature=prefix + signature if ordered else "",
        layout=layout,
        expected=expected,
        found=part.bytes,
        circumstances=open_inputs,
    )


def _own_differences(
    case: Case, batch: Batch, part: Part, target: Target, reference: Target | None
) -> tuple[Bytes, int, list[Mismatch]]:
    """What the case should have left behind, the step to blame, and all differences."""
    steps = range(len(case.steps))
    layout = batch.layouts[part.position]
    if reference is None:
        alone, at = lay_out_batch([case]), 0
        expected = part.initial.copy()
        base = run_reference(alone, Memory(expected, "cpu"), target.contract)
        rows = [(step, base.rows_of(0, step)) for step in steps]
    else:
        at = part.position
        base, _, everything = run_together(reference, batch)
        expected = everything[batch.bases[at] : batch.bases[at] + layout.size]
        rows = list(enumerate(own_rows(case, reference)))
    found: list[Mismatch] = []
    number = len(case.steps) - 1
    for death in (part.run.deaths.get(part.position), base.deaths.get(at)):
        if death is not None:
            found += exception_mismatch(None, death)
    for step in () if found else steps:
        found = exception_mismatch(
            base.raised.get((at, step)), part.run.raised.get((part.position, step))
        )
        if found:
            number = step
            break
    if rows and not (part.run.deaths or base.deaths):
        found += differences(case, layout, rows, part.initial, expected, part.bytes)
    return expected, number, found


def _stray(before: Bytes, after: Bytes, base: int, size: int) -> list[Mismatch]:
    """The change nearest to the case's own memory, ``size`` bytes from ``base`` on."""
    offsets = np.flatnonzero(before != after)
    offsets = offsets[(offsets < base) | (offsets >= base + size)]
    distances = np.where(offsets < base, base - offsets, offsets - (base + size) + 1)
    if not offsets.size:
        return []
    nearest = int(distances.argmin())
    offset, distance = int(offsets[nearest]), int(distances[nearest])
    side = "before" if offset < base else "behind"
    return [
        Mismatch(
            rank=Rank.GUARD,
            order=(),
            kind=ASTRAY,
            place=f"byte {distance} {side} the memory of the case, guard bands included",
            expected=f"0x{int(before[offset]):02x}",
            found=f"0x{int(after[offset]):02x}",
        )
    ]


def company_line(company: Company, verdict: Verdict) -> str:
    """In one sentence what the company of a case has to do with the verdict on it there."""
    if verdict.agrees:
        return "in its company it agrees now"
    if not verdict.signature.startswith(COMPANY):
        return "it writes into the memory of other cases; no other case launches anything"
    if company.silent:
        return "it depends on bytes that are not its own; no other case launches anything"
    launching = sum(bool(case.steps) for case in company.cases)
    behind = sum(bool(case.steps) for case in company.after)
    others = "1 other case" if launching == 1 else f"{launching} other cases"
    line = f"alone it agrees; it differs with {others} in its process and batch"
    return f"{line}, {behind} of them behind it" if behind else line
