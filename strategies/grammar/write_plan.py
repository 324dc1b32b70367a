"""Drawing write steps that are valid: requests, seeds, slots, tokens, positions, asserts."""

from __future__ import annotations

from ..case import Column, WriteStep
from ..columns import padded
from ..draw import Draw, spread
from ..values import (
    ENABLES,
    INT64_MAX,
    NEGATIVES,
    different,
    jump,
    poison,
    position_base,
    tokens,
)
from .book import Book
from .request_sizes import draw_request_sizes
from .write_slots import disturb, draw_slot_order, stretch, stretched_request

_SEEDS = spread(
    ("anchor", 20), ("negative", 3), ("stamped", 18), ("own", 5), ("zero", 3), ("any", 8)
)
_EXTRA = spread((0, 8), (1, 3), (2, 2), (3, 1), (5, 1), (31, 1))


def _draw_seed(draw: Draw, book: Book, own: list[int], written: set[int], asserting: bool) -> int:
    """A seed that no other request of the launch writes; negative for the anchor."""
    kind = draw.choice(_SEEDS)
    seed = -1
    if kind == "stamped" and book.stamps:
        seed = draw.choice(tuple(book.stamps))
    elif kind == "own" and own:
        seed = draw.choice(own)
    elif kind == "any":
        seed = draw.integer(0, book.state.num_slots - 1)
    elif kind == "zero":
        seed = 0
    elif kind == "negative":
        return draw.choice(NEGATIVES)
    if seed >= 0 and own and seed in written and seed not in own:
        return -1
    return -1 if asserting and seed in book.unsafe else seed


def _draw_positions(draw: Draw, count: int, previous: int | None) -> list[int]:
    """Consecutive positions, after ``previous`` where one is known, now and then with a jump."""
    if previous is not None and previous < INT64_MAX - 1 - count and draw.chance(80):
        base = previous + 1
    else:
        base = position_base(draw, count)
    positions = list(range(base, base + count))
    if draw.chance(14):
        at = draw.integer(0, count - 1)
        by = jump(draw)
        positions[at:] = [
            moved if -(2**63) <= (moved := position + by) < INT64_MAX else position
            for position in positions[at:]
        ]
    return positions


def _expected(draw: Draw, actual: list[int], length: int, fill: int) -> Column:
    """What an input assert compares with: the same, but for a few entries."""
    values = list(actual)
    if values and draw.chance(45):
        for _ in range(draw.choice((1, 1, 2, 4))):
            at = draw.integer(0, len(values) - 1)
            values[at] = different(draw, values[at])
    return padded(values, length, fill)


class _Launch:
    """The columns of one write launch while its requests are drawn."""

    def __init__(self, draw: Draw, book: Book, asserting: bool) -> None:
        sizes = draw_request_sizes(draw, book.state.num_slots)
        self.order = draw_slot_order(draw, book, sum(sizes))
        lead = draw.integer(1, 3) if draw.chance(10) else 0
        self.offsets = [lead]
        self.seeds: list[int] = []
        self.slots = draw.integers(lead, 0, book.state.num_slots - 1)
        self.positions = draw.integers(lead, 0, 99)
        skips, duplicates = draw.chance(25), draw.chance(15)
        written, taken = set(self.order), 0
        stretched = stretched_request(draw, sizes, book.state.num_slots)
        for r, size in enumerate(sizes):
            own = self.order[taken : taken + size]
            taken += size
            if r == stretched:
                own = stretch(draw, own, len(sizes))
                size = len(own)
            seed = _draw_seed(draw, book, own, written, asserting)
            self.seeds.append(seed)
            self.offsets.append(self.offsets[-1] + size)
            if own:
                stamp = book.stamps.get(seed)
                self.positions += _draw_positions(draw, size, stamp[1] if stamp else None)
                self.slots += disturb(draw, own, skips, duplicates)
        self.tokens = tokens(draw, len(self.slots))
        if not asserting and self.positions and draw.chance(4):
            self.positions[draw.integer(0, len(self.positions) - 1)] = INT64_MAX

    def note(self, book: Book) -> None:
        """Enter the stamps that the launch leaves into the book."""
        for r, seed in enumerate(self.seeds):
            previous = seed if seed >= 0 else -1
            for i in range(self.offsets[r], self.offsets[r + 1]):
                slot = self.slots[i]
                if slot >= 0:
                    book.stamp(slot, self.tokens[i], self.positions[i], previous)
                    previous = slot


def draw_write(draw: Draw, book: Book) -> WriteStep:
    """A valid write launch on the state that the book describes; the book is updated."""
    enable = draw.choice(ENABLES)
    launch = _Launch(draw, book, enable != 0)
    active, end = len(launch.seeds), launch.offsets[-1]
    length = end + draw.choice(_EXTRA)
    capacity = max(1, active + draw.choice(_EXTRA))
    spare_slot = draw.integer(0, book.state.num_slots - 1)
    asserted = draw.chance(50)
    fill = poison(draw, 7)
    step = WriteStep(
        write_offsets=padded(launch.offsets, capacity + 1, poison(draw, length)),
        write_seed_slot_indices=padded(launch.seeds, capacity, poison(draw, spare_slot)),
        write_num_valid_reqs=active,
        input_ids=padded(launch.tokens, length, fill),
        positions=padded(launch.positions, length, fill),
        out_cache_loc=padded(launch.slots, length, poison(draw, spare_slot)),
        expected_input_tokens=_expected(draw, launch.tokens, length, fill) if asserted else None,
        expected_input_positions=_expected(draw, launch.positions, length, fill ^ 1)
        if asserted
        else None,
        enable_write_input_assert=asserted,
        enable_chain_position_assert=enable,
        kernel_kind=draw.integer(0, 11),
    )
    launch.note(book)
    return step


def draw_wide_write(draw: Draw, book: Book) -> WriteStep:
    """A plan of more requests than a grid dimension holds, all empty but the last."""
    active = draw.choice((65535, 65536, 65537, 70000))
    slot = draw.integer(0, book.state.num_slots - 1)
    token, position = tokens(draw, 1)[0], position_base(draw, 1)
    book.stamp(slot, token, position, -1)
    return WriteStep(
        write_offsets=Column(length=active + 1, tail=(1,)),
        write_seed_slot_indices=Column(length=active, fill=-1),
        write_num_valid_reqs=active,
        input_ids=Column(values=(token,), length=1),
        positions=Column(values=(position,), length=1),
        out_cache_loc=Column(values=(slot,), length=1),
        kernel_kind=draw.integer(0, 11),
    )
