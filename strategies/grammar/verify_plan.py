"""Drawing verify steps that are valid: plans for what was stamped, slightly wrong, or at random."""

from __future__ import annotations

from ..case import Column, VerifyStep
from ..columns import padded
from ..draw import Draw, spread
from ..values import ENABLES, NEGATIVES, different, poison, tokens
from .book import Book

_ENABLES = spread((1, 14), (0, 2), *((value, 1) for value in sorted(set(ENABLES) - {0, 1})))
_ORDERS = spread(("stamped", 9), ("shuffled", 4), ("reversed", 2), ("subset", 3), ("repeats", 2))
_EXTRA = spread((0, 8), (1, 3), (2, 2), (4, 1), (31, 1))
_MISTAKES = spread(
    *(("token", 4), ("position", 4), ("predecessor", 3), ("swap_predecessors", 2)),
    *(("swap_expected", 1), ("head", 1)),
)
BOUNDARIES = spread(
    *((size, 6) for size in (1, 31, 32, 33, 63, 64, 65)),
    *((size, 2) for size in (127, 128, 129, 255, 256, 257)),
    *((size, 1) for size in (300, 511, 512, 513)),
)
"""Entry counts around warps, blocks and grid strides."""

Entry = list[int]
"""[slot, expected token, expected position, predecessor slot]"""


def _stamped_entries(draw: Draw, book: Book) -> list[Entry]:
    """An entry for each stamped slot, in some order; a subset, or with repetitions, at times."""
    stamps = book.stamps
    order = draw.choice(_ORDERS)
    slots = list(stamps)
    if order == "reversed":
        slots.reverse()
    elif order == "repeats":
        slots = [slots[i] for i in draw.integers(len(slots), 0, len(slots) - 1)]
    elif order != "stamped":
        count = len(slots) if order == "shuffled" else draw.integer(1, len(slots))
        slots = [slots[i] for i in draw.distinct(count, 0, len(slots) - 1)]
    return [[slot, *stamps[slot]] for slot in slots]


def _random_entries(draw: Draw, book: Book) -> list[Entry]:
    """Entries for whatever lies in the buffer: hardly anything matches."""
    last = book.state.num_slots - 1
    count = draw.integer(1, 12)
    return [
        [slot, token, draw.integer(0, 40), draw.integer(-1, last)]
        for slot, token in zip(draw.integers(count, 0, last), tokens(draw, count), strict=True)
    ]


def _make_mistake(draw: Draw, entries: list[Entry], num_slots: int) -> None:
    """One exact error in a plan."""
    entry = entries[draw.integer(0, len(entries) - 1)]
    kind = draw.choice(_MISTAKES)
    if kind == "token":
        entry[1] = different(draw, entry[1])
    elif kind == "position":
        entry[2] = different(draw, entry[2])
    elif kind == "predecessor":
        entry[3] = draw.integer(-1, num_slots - 1)
    elif kind == "head":
        entry[3] = draw.choice(NEGATIVES)
    else:
        other = entries[draw.integer(0, len(entries) - 1)]
        fields = (3,) if kind == "swap_predecessors" else (1, 2)
        for field in fields:
            entry[field], other[field] = other[field], entry[field]


def _season(draw: Draw, entries: list[Entry]) -> None:
    """The values that mean "do not check": expected token -1, predecessor 0, slot 0."""
    if draw.chance(15):
        for entry in entries:
            if draw.chance(40):
                entry[1] = -1
    if draw.chance(15):
        for entry in entries:
            if draw.chance(40):
                entry[3] = 0
    if draw.chance(15):
        for _ in range(draw.integer(1, 3)):
            at = draw.integer(0, len(entries))
            entries.insert(at, [0, *draw.integers(2, -1, 9), draw.integer(-1, 1)])


def draw_verify(draw: Draw, book: Book) -> VerifyStep:
    """A valid verify launch for what the book says is stamped."""
    num_slots = book.state.num_slots
    if book.stamps and draw.chance(96):
        entries = _stamped_entries(draw, book)
    else:
        entries = _random_entries(draw, book)
    if draw.chance(30):
        for _ in range(draw.choice((1, 1, 2, 3))):
            _make_mistake(draw, entries, num_slots)
    _season(draw, entries)
    if draw.chance(3.5):
        count = draw.choice(BOUNDARIES)
        entries = [entries[i] for i in draw.integers(count, 0, len(entries) - 1)]
    active = draw.integer(0, len(entries)) if draw.chance(12) else len(entries)
    capacity = len(entries) + draw.choice(_EXTRA)
    slots, expected_tokens, positions, previous = ([e[k] for e in entries] for k in range(4))
    spare = draw.integer(0, num_slots - 1)
    return VerifyStep(
        verify_slot_indices=padded(slots, capacity, poison(draw, spare)),
        verify_expected_tokens=padded(expected_tokens, capacity, poison(draw, 5)),
        verify_expected_positions=padded(positions, capacity, poison(draw, 5)),
        verify_prev_slot_indices=padded(previous, capacity, poison(draw, spare)),
        verify_num_valid=active,
        enable=draw.choice(_ENABLES),
        check_verify_expected_token=draw.chance(65),
        kernel_kind=draw.integer(0, 11),
    )


def draw_wide_verify(draw: Draw, book: Book) -> VerifyStep:
    """More entries than a grid dimension holds, all for slot 0 but the last."""
    count = draw.choice((65535, 65536, 65537, 70000))
    slot = draw.integer(0, book.state.num_slots - 1)
    token, position, previous = book.stamps.get(slot, (3, 4, -1))
    if draw.chance(50):
        position = different(draw, position)
    return VerifyStep(
        verify_slot_indices=Column(length=count, tail=(slot,)),
        verify_expected_tokens=Column(length=count, tail=(token,)),
        verify_expected_positions=Column(length=count, tail=(position,)),
        verify_prev_slot_indices=Column(length=count, tail=(previous,)),
        verify_num_valid=count,
        check_verify_expected_token=True,
        kernel_kind=draw.integer(0, 11),
    )
