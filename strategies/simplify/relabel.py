"""A case laid out anew: other slot numbers, stride or source geometry, the same bytes per slot.

Plans, inputs, edits and patches move together, so a chain stays a chain and a flipped KV byte
stays the same byte of the same slot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from ..case import Case, CorruptStep, Edit, Source, Step, SwapSlots, VerifyStep, WriteStep
from ..columns import expand
from ..content import Content
from .cuts import cut_entries, map_column
from .problem import Span
from .sites import SLOT_COLUMNS
from .words import WORD_BYTES, Words, patched_words, source_index, with_words

Renumber = Callable[[int], int | None]
"""A slot's new number: None where it goes away, NOWHERE where writes to it become skipped."""
NOWHERE = -1


class Frame(NamedTuple):
    """How slots lie in a region: ``per_row`` of them, ``width`` bytes each, then padding."""

    rows: int
    row_bytes: int
    per_row: int
    width: int

    def split(self, offset: int) -> tuple[int | None, int, int]:
        """The byte's slot (None in padding), its row, and its offset in the slot or padding."""
        row, column = divmod(offset, self.row_bytes)
        used = self.per_row * self.width
        if column >= used:
            return None, row, column - used
        return row * self.per_row + column // self.width, row, column % self.width

    def join(self, slot: int | None, row: int, byte: int) -> int | None:
        """The inverse of split; None where this frame has no such byte."""
        used = self.per_row * self.width
        if slot is None:
            column = used + byte
        elif byte < self.width:
            row, column = slot // self.per_row, slot % self.per_row * self.width + byte
        else:
            return None
        return (
            row * self.row_bytes + column if row < self.rows and column < self.row_bytes else None
        )


def canary_frame(case: Case) -> Frame:
    return Frame(case.num_slots, case.slot_stride_bytes, 1, case.slot_stride_bytes)


def source_frame(source: Source) -> Frame:
    return Frame(source.rows, source.row_bytes, source.page_size, source.num_bytes_per_token)


def used_slots(case: Case) -> tuple[int, ...]:
    """Slots in range that a plan, an input or an edit names, in order of first use."""
    found: dict[int, None] = {}
    for step in case.steps:
        for slot in _named(case, step):
            if 0 <= slot < case.num_slots:
                found.setdefault(slot)
    return tuple(found)


def _named(case: Case, step: Step) -> Iterator[int]:
    if not isinstance(step, CorruptStep):
        for name in SLOT_COLUMNS:
            if hasattr(step, name):
                yield from expand(getattr(step, name))
        return
    for edit in step.edits:
        if isinstance(edit, SwapSlots):
            yield from (edit.first, edit.second)
        else:
            slot = _frame(case, edit.region).split(edit.offset)[0]
            if slot is not None:
                yield slot


def _frame(case: Case, region: str) -> Frame:
    k = source_index(region)
    return canary_frame(case) if k is None else source_frame(case.real_kv_sources[k])


def relabel(case: Case, numbers: Mapping[int, int], num_slots: int) -> Case:
    """Slots renumbered: those of ``numbers``; all others go away with their bytes.

    Two slots may become one; it has the bytes of that which keeps its number, if one does.
    Numbers out of range stay; sources keep as many rows as ``num_slots`` need.
    """
    sources = tuple(
        replace(source, rows=-(-num_slots // source.page_size)) for source in case.real_kv_sources
    )
    return relayout(case, numbers.get, replace(case, num_slots=num_slots, real_kv_sources=sources))


def relayout(case: Case, renumber: Renumber, frame: Case) -> Case:
    """``case`` in the sizes of ``frame``, which has as many sources."""

    def change(slot: int) -> int:
        if not 0 <= slot < case.num_slots:
            return slot
        renumbered = renumber(slot)
        return slot if renumbered is None else renumbered

    sources = tuple(
        replace(new, content=_moved(old.content, source_frame(old), source_frame(new), renumber))
        for old, new in zip(case.real_kv_sources, frame.real_kv_sources, strict=True)
    )
    return replace(
        frame,
        canary_buf=_moved(case.canary_buf, canary_frame(case), canary_frame(frame), renumber),
        real_kv_sources=sources,
        steps=tuple(_moved_step(case, frame, step, renumber, change) for step in case.steps),
    )


def _moved(content: Content, old: Frame, new: Frame, renumber: Renumber) -> Content:
    moved: Words = {}
    settled: set[int] = set()
    for index, word in patched_words(content).items():
        offset = _moved_offset(index * WORD_BYTES, old, new, renumber)
        if offset is None:
            continue
        slot = old.split(index * WORD_BYTES)[0]
        target = offset // WORD_BYTES
        if slot is not None and renumber(slot) == slot:
            settled.add(target)
            moved[target] = word
        elif target not in settled:
            moved[target] = word
    return with_words(content, moved)


def _moved_offset(offset: int, old: Frame, new: Frame, renumber: Renumber) -> int | None:
    slot, row, byte = old.split(offset)
    if slot is not None:
        slot = renumber(slot)
        if slot is None or slot == NOWHERE:
            return None
    return new.join(slot, row, byte)


def _moved_step(
    case: Case, frame: Case, step: Step, renumber: Renumber, change: Callable[[int], int]
) -> Step:
    if not isinstance(step, CorruptStep):
        columns = {
            name: map_column(getattr(step, name), change)
            for name in SLOT_COLUMNS
            if hasattr(step, name)
        }
        return replace(step, **columns)
    moved: list[Edit] = []
    for edit in step.edits:
        if isinstance(edit, SwapSlots):
            moved.append(SwapSlots(first=change(edit.first), second=change(edit.second)))
            continue
        frames = _frame(case, edit.region), _frame(frame, edit.region)
        offset = _moved_offset(edit.offset, *frames, renumber)
        if offset is not None:
            moved.append(replace(edit, offset=offset))
    return replace(step, edits=tuple(moved))


def forget_slots(case: Case, gone: set[int]) -> Case:
    """The case without what it says of some slots; a chain closes over those it loses.

    A verify entry whose predecessor goes gets the predecessor's own, as the step knows it; a
    request whose seed goes becomes the head of a chain.
    """
    return replace(case, steps=tuple(_forgetful(case, step, gone) for step in case.steps))


def _forgetful(case: Case, step: Step, gone: set[int]) -> Step:
    if isinstance(step, WriteStep):
        kept = cut_entries(step, _where(expand(step.out_cache_loc), gone))
        seeds = map_column(step.write_seed_slot_indices, lambda seed: -1 if seed in gone else seed)
        return replace(kept, write_seed_slot_indices=seeds)
    if isinstance(step, VerifyStep):
        slots = expand(step.verify_slot_indices)
        before = dict(zip(slots, expand(step.verify_prev_slot_indices), strict=True))
        linked = map_column(step.verify_prev_slot_indices, lambda prev: _kept(prev, before, gone))
        step = replace(step, verify_prev_slot_indices=linked)
        return cut_entries(step, _where(slots, gone))
    edits = tuple(edit for edit in step.edits if not gone.intersection(_edited(case, edit)))
    return replace(step, edits=edits)


def _edited(case: Case, edit: Edit) -> tuple[int | None, ...]:
    if isinstance(edit, SwapSlots):
        return edit.first, edit.second
    return (_frame(case, edit.region).split(edit.offset)[0],)


def _kept(slot: int, before: Mapping[int, int], gone: set[int]) -> int:
    for _ in range(len(gone) + 1):
        if slot not in gone:
            return slot
        slot = before.get(slot, 0)
    return 0


def _where(slots: Sequence[int], gone: set[int]) -> list[Span]:
    return [(index, index + 1) for index, slot in enumerate(slots) if slot in gone]
