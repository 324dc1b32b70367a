"""Passes that make a case small in memory: slots, stride, source geometry, ring."""

from __future__ import annotations

from msgspec.structs import replace

from kv_canary_fuzz.reference.consts import VIOLATION_FIELDS as ROW_WORDS

from ..case import Case, Source
from .problem import Problem, descend, first, least
from .relabel import NOWHERE, relabel, relayout, used_slots
from .words import RING, patched_words, put_content, replace_source, with_words

FEW = 12
"""Slots in use up to which every pair is tried."""
UNIT = 16
"""Bytes: source widths and read_bytes are multiples of this."""


def compact_slots(problem: Problem) -> None:
    """Slots in use become 0, 1, 2 (or 1, 2, 3) in order of first use."""
    case = problem.case
    used = used_slots(case)
    orders = (used, tuple(sorted(used)))
    if first(problem, (_numbered(case, order, start) for start in (0, 1) for order in orders)):
        return
    top = max(used, default=-1) + 1
    least(top, case.num_slots, lambda n: problem.attempt(_resized(case, n)))


def _numbered(case: Case, order: tuple[int, ...], start: int) -> Case:
    """Slot 0 keeps its meaning where the others begin at 1."""
    rest = [slot for slot in order if slot or not start]
    numbers = {slot: number for number, slot in enumerate(rest, start)}
    return relabel(case, {0: 0, **numbers} if start else numbers, start + len(rest))


def _resized(case: Case, num_slots: int) -> Case:
    return relabel(case, {slot: slot for slot in range(num_slots)}, num_slots)


def lower_slots(problem: Problem) -> None:
    """Each slot in use to the lowest number that it can have, also one in use, or to none."""
    for slot in sorted(used_slots(problem.case), reverse=True):
        if slot in used_slots(problem.case):
            _lower_slot(problem, slot)


def _lower_slot(problem: Problem, slot: int) -> None:
    case = problem.case
    used = used_slots(case)
    if len(used) <= FEW:
        first(problem, (_renamed(case, used, slot, target) for target in (*range(slot), NOWHERE)))
    else:
        descend(slot, lambda target: problem.attempt(_renamed(case, used, slot, target)))


def _renamed(case: Case, used: tuple[int, ...], slot: int, target: int) -> Case:
    if not NOWHERE <= target < case.num_slots:
        return case
    numbers = {**{number: number for number in used}, slot: target}
    return relabel(case, numbers, max(max(numbers.values()) + 1, 1))


def shrink_stride(problem: Problem) -> None:
    case = problem.case
    least(
        4,
        case.slot_stride_bytes // 8,
        lambda n: problem.attempt(relayout(case, _same, replace(case, slot_stride_bytes=8 * n))),
    )


def shrink_ring(problem: Problem) -> None:
    """Fewer rows: those before the write index, which moves along, and those behind."""
    case = problem.case
    ahead = min(case.violation_write_index, case.ring_capacity)
    least(0, ahead, lambda kept: problem.attempt(_without_leading_rows(case, ahead - kept)))
    case = problem.case
    least(0, case.ring_capacity, lambda rows: problem.attempt(_with_ring(case, rows)))


def _with_ring(case: Case, rows: int) -> Case:
    kept = {i: w for i, w in patched_words(case.violation_ring).items() if i < ROW_WORDS * rows}
    return put_content(
        replace(case, ring_capacity=rows), RING, with_words(case.violation_ring, kept)
    )


def _without_leading_rows(case: Case, rows: int) -> Case:
    words = patched_words(case.violation_ring).items()
    kept = {i - ROW_WORDS * rows: word for i, word in words if i >= ROW_WORDS * rows}
    moved = replace(
        case,
        ring_capacity=case.ring_capacity - rows,
        violation_write_index=case.violation_write_index - rows,
    )
    return put_content(moved, RING, with_words(case.violation_ring, kept))


def shrink_sources(problem: Problem) -> None:
    """Every source to one page of 16 bytes per slot, else each of its sizes as far as it goes.

    Rows that lie apart are brought together first: bytes keep their offsets within the rows.
    """
    for k, source in enumerate(problem.case.real_kv_sources):
        _close_up(problem, k, source.row_gap // UNIT)
    case = problem.case
    smallest = [_geometry(case, source, 1, UNIT, UNIT, 0) for source in case.real_kv_sources]
    if problem.attempt(relayout(case, _same, replace(case, real_kv_sources=tuple(smallest)))):
        return
    for k in range(len(case.real_kv_sources)):
        if not _attempt_source(problem, k, smallest[k]):
            _shrink_source(problem, k)


def _close_up(problem: Problem, k: int, gap: int) -> None:
    """Fewer bytes between the rows of source ``k``, which has ``gap`` units of them."""

    def with_gap(units: int) -> bool:
        source = replace(problem.case.real_kv_sources[k], row_gap=UNIT * units)
        return problem.attempt(replace_source(problem.case, k, source))

    least(0, gap, with_gap)


def _shrink_source(problem: Problem, k: int) -> None:
    source = problem.case.real_kv_sources[k]
    used = source.page_size * source.num_bytes_per_token
    pads = (source.row_bytes - used) // UNIT
    least(0, pads, lambda n: _attempt_shape(problem, k, padding=UNIT * n))
    least(1, source.page_size, lambda n: _attempt_shape(problem, k, page_size=n))
    pages = problem.case.real_kv_sources[k].page_size
    least(1, pages, lambda n: problem.attempt(_narrow_pages(problem.case, k, n)))
    widths = source.num_bytes_per_token // UNIT
    least(1, widths, lambda n: _attempt_width(problem, k, UNIT * n, UNIT))
    read = source.read_bytes
    least(1, widths, lambda n: _attempt_width(problem, k, UNIT * n, min(UNIT * n, read)))
    reads = problem.case.real_kv_sources[k].read_bytes // UNIT
    least(1, reads, lambda n: _attempt_shape(problem, k, read_bytes=UNIT * n))
    source = problem.case.real_kv_sources[k]
    needed = -(-problem.case.num_slots // source.page_size)
    least(
        needed,
        source.rows,
        lambda n: _attempt_source(problem, k, replace(problem.case.real_kv_sources[k], rows=n)),
    )


def _narrow_pages(case: Case, k: int, page: int) -> Case:
    """Pages of fewer slots; a slot stays in its page, at its place or at the last one."""
    source = case.real_kv_sources[k]
    old = source.page_size
    numbers = {slot: slot // old * page + min(slot % old, page - 1) for slot in used_slots(case)}
    sized = replace(case, num_slots=max(numbers.values(), default=0) + 1)
    padding = source.row_bytes - old * source.num_bytes_per_token
    shape = source.num_bytes_per_token, source.read_bytes, padding
    frame = replace_source(sized, k, _geometry(sized, source, page, *shape))
    return relayout(case, numbers.get, frame)


def _attempt_width(problem: Problem, k: int, width: int, read: int) -> bool:
    return _attempt_shape(problem, k, num_bytes_per_token=width, read_bytes=read)


def _attempt_shape(problem: Problem, k: int, **changes: int) -> bool:
    source = problem.case.real_kv_sources[k]
    shape = {
        "page_size": source.page_size,
        "num_bytes_per_token": source.num_bytes_per_token,
        "read_bytes": source.read_bytes,
        "padding": source.row_bytes - source.page_size * source.num_bytes_per_token,
    }
    shape.update(changes)
    return _attempt_source(problem, k, _geometry(problem.case, source, *shape.values()))


def _attempt_source(problem: Problem, k: int, source: Source) -> bool:
    case = problem.case
    return problem.attempt(relayout(case, _same, replace_source(case, k, source)))


def _geometry(case: Case, source: Source, page: int, width: int, read: int, padding: int) -> Source:
    return replace(
        source,
        rows=-(-case.num_slots // page),
        row_bytes=page * width + padding,
        page_size=page,
        num_bytes_per_token=width,
        read_bytes=read,
    )


def plain_source(case: Case, width: int, read: int) -> Source:
    """A source of zeros with one slot a row, for as many slots as the case has."""
    return Source(
        rows=case.num_slots,
        row_bytes=width,
        page_size=1,
        num_bytes_per_token=width,
        read_bytes=read,
    )


def _same(slot: int) -> int:
    return slot
