"""Turning valid cases into hardened ones: the inputs of the contract's section 8."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from ..case import Case, Column, VerifyStep, WriteStep
from ..classify import Domain, classify
from ..columns import expand
from ..draw import Draw, spread
from ..values import INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, as_int64

_STATE_KINDS = spread(("index", 4), ("slot_counter", 1), ("kernel_counter", 1))
_INDICES = (-1, -2, -5, INT32_MIN, INT32_MAX, INT32_MAX - 1, INT32_MAX - 3)
_COUNTERS = (INT64_MAX, INT64_MAX - 1, INT64_MAX - 4)
_MOST_ROTATED = 1024
_COUNTS = (-1, INT32_MIN, INT32_MAX, 65536)


def _wild_slots(num_slots: int) -> tuple[int, ...]:
    """Slots that are not there, some of which a narrower integer would take for one that is."""
    return (num_slots, num_slots + 1, 2**31, 2**32 + 1, 2**40, INT64_MAX, -2, INT64_MIN)


def _replaced(draw: Draw, column: Column, options: tuple[int, ...]) -> Column:
    """The column with one or two of its leading values replaced."""
    values = list(column.values)
    for _ in range(draw.integer(1, 2) if values else 0):
        values[draw.integer(0, len(values) - 1)] = draw.choice(options)
    return replace(column, values=tuple(values))


def _write_count(draw: Draw, _: Case, step: WriteStep) -> WriteStep:
    over = (step.write_seed_slot_indices.length + 1, *_COUNTS)
    return replace(step, write_num_valid_reqs=draw.choice(over))


def _write_offsets(draw: Draw, _: Case, step: WriteStep) -> WriteStep:
    total = step.out_cache_loc.length
    wild = (total + 1, total, 0, -1, INT64_MAX, INT64_MIN, 2**32, 2**31, 1)
    return replace(step, write_offsets=_replaced(draw, step.write_offsets, wild))


def _write_rotated(draw: Draw, case: Case, step: WriteStep) -> WriteStep:
    """The same requests from a later one on, then a range that goes back to the first entry."""
    count = step.write_num_valid_reqs
    capacity = step.write_seed_slot_indices.length
    if not 1 < count <= capacity <= _MOST_ROTATED:
        return _write_offsets(draw, case, step)
    at = draw.integer(1, count - 1)
    offsets, seeds = expand(step.write_offsets), expand(step.write_seed_slot_indices)
    return replace(
        step,
        write_num_valid_reqs=count + 1,
        write_offsets=Column(
            values=(*offsets[at : count + 1], *offsets[: at + 1], *offsets[count + 1 :]),
            length=capacity + 2,
        ),
        write_seed_slot_indices=Column(
            values=(*seeds[at:count], -1, *seeds[:at], *seeds[count:]), length=capacity + 1
        ),
    )


def _write_slots(draw: Draw, case: Case, step: WriteStep) -> WriteStep:
    return replace(
        step, out_cache_loc=_replaced(draw, step.out_cache_loc, _wild_slots(case.num_slots))
    )


def _write_seeds(draw: Draw, case: Case, step: WriteStep) -> WriteStep:
    wild = _wild_slots(case.num_slots)
    return replace(
        step, write_seed_slot_indices=_replaced(draw, step.write_seed_slot_indices, wild)
    )


def _write_positions(draw: Draw, _: Case, step: WriteStep) -> WriteStep:
    """Positions that run past INT64_MAX, under the position assert."""
    base = INT64_MAX - draw.integer(0, 2)
    values = tuple(as_int64(base + i) for i in range(len(step.positions.values)))
    return replace(
        step, positions=replace(step.positions, values=values), enable_chain_position_assert=1
    )


def _write_nothing(_draw: Draw, _: Case, step: WriteStep) -> WriteStep:
    """A plan without room for a request."""
    return replace(
        step,
        write_offsets=Column(values=expand(step.write_offsets)[:1], length=1),
        write_seed_slot_indices=Column(),
    )


def _verify_count(draw: Draw, _: Case, step: VerifyStep) -> VerifyStep:
    over = (step.verify_slot_indices.length + 1, *_COUNTS)
    return replace(step, verify_num_valid=draw.choice(over))


def _verify_slots(draw: Draw, case: Case, step: VerifyStep) -> VerifyStep:
    wild = (-1, *_wild_slots(case.num_slots))
    return replace(step, verify_slot_indices=_replaced(draw, step.verify_slot_indices, wild))


def _verify_predecessors(draw: Draw, case: Case, step: VerifyStep) -> VerifyStep:
    wild = _wild_slots(case.num_slots)
    column = _replaced(draw, step.verify_prev_slot_indices, wild)
    return replace(step, verify_prev_slot_indices=column)


def _verify_nothing(_draw: Draw, _: Case, step: VerifyStep) -> VerifyStep:
    """A plan without room for an entry."""
    none = Column()
    return replace(
        step,
        verify_slot_indices=none,
        verify_expected_tokens=none,
        verify_expected_positions=none,
        verify_prev_slot_indices=none,
    )


_WRITE_KINDS: tuple[Callable[[Draw, Case, WriteStep], WriteStep], ...] = spread(
    *((_write_count, 3), (_write_offsets, 4), (_write_rotated, 2), (_write_slots, 4)),
    *((_write_seeds, 3), (_write_positions, 2), (_write_nothing, 1)),
)
_VERIFY_KINDS: tuple[Callable[[Draw, Case, VerifyStep], VerifyStep], ...] = spread(
    *((_verify_count, 3), (_verify_slots, 4), (_verify_predecessors, 4), (_verify_nothing, 1))
)


def _harden_state(draw: Draw, case: Case) -> Case:
    kind = draw.choice(_STATE_KINDS)
    if kind == "index":
        return replace(case, violation_write_index=draw.choice(_INDICES))
    if kind == "slot_counter":
        return replace(case, slot_run_counter=draw.choice(_COUNTERS))
    return replace(case, kernel_run_counter=draw.choice(_COUNTERS))


def _harden_step(draw: Draw, case: Case) -> Case:
    index = draw.integer(0, len(case.steps) - 1)
    step = case.steps[index]
    if isinstance(step, WriteStep):
        new: WriteStep | VerifyStep = draw.choice(_WRITE_KINDS)(draw, case, step)
    elif isinstance(step, VerifyStep):
        new = draw.choice(_VERIFY_KINDS)(draw, case, step)
    else:
        return case
    return replace(case, steps=(*case.steps[:index], new, *case.steps[index + 1 :]))


def harden(draw: Draw, case: Case) -> Case:
    """The valid case with one to four inputs of section 8; HARDENED whatever is drawn."""
    hardened = _harden_state(draw, case) if draw.chance(35) else case
    for _ in range(draw.integer(1, 3)):
        candidate = _harden_step(draw, hardened)
        if classify(candidate) is not Domain.UNDEFINED:
            hardened = candidate
    if classify(hardened) is Domain.VALID:
        return replace(hardened, violation_write_index=-1)
    return hardened
