"""Drawing exact damage: bits of stamped slots, KV bytes at the ends of what is folded, swaps."""

from __future__ import annotations

from kv_canary_fuzz.reference.consts import (
    CANARY_FIELD_POSITION,
    CANARY_SLOT_BYTES,
    PARTIAL_FOLD_BYTES,
)
from kv_canary_fuzz.reference.enums import RealKvHashMode

from ..case import CorruptStep, Edit, Flip, Source, SwapSlots
from ..draw import Draw, spread
from .book import Book

_NEARLY_ALL = 58
"""Set bits from which the few flips of one case could make a position INT64_MAX."""

_KINDS = spread(("field", 9), ("kv", 10), ("swap", 2), ("padding", 1))
_COUNTS = spread((1, 10), (2, 5), (3, 3))
_SPOTS = spread(
    *(("inside", 6), ("first", 2), ("last", 3), ("beyond", 3), ("word", 2)),
    *(("token_end", 2), ("row_padding", 1), ("next_to_partial", 2)),
)


def folded_bytes(source: Source, mode: int) -> int:
    """How many leading bytes of a token go into the real-KV hash."""
    if mode == RealKvHashMode.NONE:
        return 0
    return PARTIAL_FOLD_BYTES if mode == RealKvHashMode.PARTIAL else source.read_bytes


def _set_bits(value: int) -> int:
    return (value & 2**64 - 1).bit_count()


def _flip_field(draw: Draw, book: Book, slot: int) -> Flip:
    """One bit of one of the four fields of a slot."""
    field, bit = draw.integer(0, 3), draw.integer(0, 63)
    stamp = book.stamps.get(slot)
    if field == CANARY_FIELD_POSITION and (stamp is None or _set_bits(stamp[1]) >= _NEARLY_ALL):
        book.unsafe.add(slot)
    offset = slot * book.state.slot_stride_bytes + field * 8 + bit // 8
    return Flip(region="canary_buf", offset=offset, mask=1 << bit % 8)


def _spot(draw: Draw, source: Source, folded: int, slot: int) -> int:
    """A byte of a source by its place relative to what is folded of a slot."""
    spot = draw.choice(_SPOTS)
    row_start = slot // source.page_size * source.row_bytes
    start = row_start + slot % source.page_size * source.num_bytes_per_token
    used = source.page_size * source.num_bytes_per_token
    if spot == "row_padding" and source.row_bytes > used:
        return row_start + draw.integer(used, source.row_bytes - 1)
    if spot == "token_end":
        return start + source.num_bytes_per_token - 1
    if spot == "next_to_partial":
        return start + draw.integer(PARTIAL_FOLD_BYTES - 1, PARTIAL_FOLD_BYTES)
    if spot == "first" or not folded:
        return start
    if spot == "last":
        return start + folded - 1
    if spot == "beyond":
        return start + folded
    if spot == "word":
        return start + 8 * draw.integer(0, folded // 8 - 1) + draw.choice((0, 7))
    return start + draw.integer(0, folded - 1)


def _flip_kv(draw: Draw, book: Book, slot: int) -> Flip:
    """One bit of one byte of a source, inside or beside the folded bytes of a slot."""
    state = book.state
    index = draw.integer(0, len(state.real_kv_sources) - 1)
    source = state.real_kv_sources[index]
    offset = _spot(draw, source, folded_bytes(source, state.real_kv_hash_mode), slot)
    return Flip(
        region=f"real_kv_sources[{index}].tensor",
        offset=min(offset, source.rows * source.row_bytes - 1),
        mask=1 << draw.integer(0, 7),
    )


def _draw_edit(draw: Draw, book: Book, targets: tuple[int, ...]) -> Edit:
    state = book.state
    kind = draw.choice(_KINDS)
    slot = draw.choice(targets)
    if kind == "kv" and state.real_kv_sources:
        return _flip_kv(draw, book, slot)
    if kind == "swap" and len(targets) > 1:
        other = draw.choice(targets)
        book.unsafe.update((slot, other))
        return SwapSlots(first=slot, second=other)
    if kind == "padding" and state.slot_stride_bytes > CANARY_SLOT_BYTES:
        offset = draw.integer(CANARY_SLOT_BYTES, state.slot_stride_bytes - 1)
        return Flip(
            region="canary_buf",
            offset=slot * state.slot_stride_bytes + offset,
            mask=draw.integer(1, 255),
        )
    return _flip_field(draw, book, slot)


def draw_corruption(draw: Draw, book: Book) -> CorruptStep:
    """One to three edits, aimed at stamped slots where there are any."""
    targets = tuple(book.stamps) or (draw.integer(0, book.state.num_slots - 1),)
    return CorruptStep(
        edits=tuple([_draw_edit(draw, book, targets) for _ in range(draw.choice(_COUNTS))])
    )
