"""The violation rows that an implementation appends, read off its own ring."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec.structs import replace

from kv_canary_fuzz.reference import consts
from kv_canary_fuzz.strategies.case import Case, VerifyStep, WriteStep
from kv_canary_fuzz.strategies.content import Content

from ..execution.arena import Bytes, allocate, fill, lay_out_batch
from ..execution.binding import Binder
from ..execution.execution import step_target
from ..execution.outcome import Rows
from ..execution.tensors import Memory
from ..targets.target import Target

SPARE_ROWS = 16
POISON = Content(fill=0xAA)


def entries_of(case: Case) -> int:
    """The entries of all the launches of a case."""
    writes = (s.out_cache_loc.length for s in case.steps if isinstance(s, WriteStep))
    verifies = (s.verify_slot_indices.length for s in case.steps if isinstance(s, VerifyStep))
    return sum(writes) + sum(verifies)


def with_room(case: Case, rows: int) -> Case:
    """``case`` with a ring that holds twice ``rows`` rows, empty at first."""
    room = 2 * rows + 2 * SPARE_ROWS
    return replace(case, ring_capacity=room, violation_write_index=0, violation_ring=POISON)


def own_rows(case: Case, target: Target) -> Iterator[Rows]:
    """What a target appends in each step, seen in a copy of the case that has room."""
    roomy = with_room(case, max(case.ring_capacity, 2 * entries_of(case)))
    layout = lay_out_batch([roomy]).layouts[0]
    before = roomy.violation_write_index
    for data in _snapshots(roomy, target):
        ring, index = (
            data[layout.regions[name].offset : layout.regions[name].end]
            for name in ("violation_ring", "violation_write_index")
        )
        after = int(index.view(np.int32)[0])
        rows = ring.view(np.int64).reshape(-1, consts.VIOLATION_FIELDS)
        yield rows[max(before, 0) : max(after, 0)]
        before = after


def _snapshots(case: Case, target: Target) -> Iterator[Bytes]:
    """The bytes after each step; those at a step that ends the process stand for the rest."""
    if target.isolation is not None:
        yield from target.isolation.run_steps(case).snapshots
        return
    batch = lay_out_batch([case])
    buffer = allocate(batch.size)
    fill(batch, buffer)
    memory = Memory(buffer, target.device)
    binder = Binder(case, batch.layouts[0], memory, 0)
    if target.set_schedule is not None:
        target.set_schedule(case.schedule)
    for number, _ in enumerate(case.steps):
        step_target(target, case, binder, number)
        yield memory.read(0, batch.size).copy()
