"""The grammar: how a case is drawn, whichever driver draws it."""

from __future__ import annotations

from msgspec.structs import replace

from kv_canary_fuzz.reference.contract import DOCUMENTED, Contract

from ..case import Case, CorruptStep, Step
from ..draw import Draw, spread
from ..faults import draw_faults
from .book import Book
from .corruptions import draw_corruption
from .hardening import harden
from .state import draw_state
from .strides import spread_rows
from .variation import vary
from .verify_plan import draw_verify, draw_wide_verify
from .write_plan import draw_wide_write, draw_write

DOMAINS = ("valid", "hardened", "refused", "all")
"""What `draw_case` can be asked for; "all" mixes the others."""

SHAPES = spread(
    *(("w", 17), ("wv", 13), ("v", 4), ("wcv", 36), ("wwv", 8), ("wwcv", 8)),
    *(("wvcv", 4), ("wcvcv", 4), ("wcwv", 3), ("wvwcv", 2), ("cv", 1)),
)
"""Steps of a case: w writes, c corrupts, v verifies."""

_MIX = spread(("valid", 8), ("refused", 1), ("hardened", 1))
_WIDE_PERCENT = 0.3
"""Cases with more requests or entries than a grid dimension holds: they cost milliseconds each."""


def _draw_step(draw: Draw, book: Book, letter: str) -> Step:
    if letter == "w":
        return draw_write(draw, book)
    return draw_verify(draw, book) if letter == "v" else draw_corruption(draw, book)


def _draw_valid(draw: Draw) -> Case:
    state = draw_state(draw)
    book = Book(state)
    steps = [_draw_step(draw, book, letter) for letter in draw.choice(SHAPES)]
    if draw.chance(_WIDE_PERCENT):
        wide = draw_wide_write if draw.chance(50) else draw_wide_verify
        steps.append(wide(draw, book))
    return replace(state, steps=tuple(steps))


def _refuse(draw: Draw, case: Case) -> Case:
    """The valid case with a copy of one of its launches made illegal, before or after any step."""
    launches = [step for step in case.steps if not isinstance(step, CorruptStep)]
    step = draw.choice(launches)
    refused = replace(step, faults=draw_faults(draw, case, step))
    at = draw.integer(0, len(case.steps))
    return replace(case, steps=(*case.steps[:at], refused, *case.steps[at:]))


def draw_case(draw: Draw, domain: str = "valid", contract: Contract = DOCUMENTED) -> Case:
    """A case of one of `DOMAINS`, or of a mixture of them. Raises ValueError for another name.

    Every case drawn is well-formed, and `classify` puts it into the domain asked for. What a
    revision of the contract allows beyond the documented one is drawn last, so that a stream gives
    the same case under each but for that.
    """
    if domain not in DOMAINS:
        raise ValueError(f"domain {domain!r} is none of {', '.join(DOMAINS)}")
    if domain == "all":
        domain = draw.choice(_MIX)
    case = _draw_valid(draw)
    if domain == "hardened":
        case = harden(draw, case)
    elif domain == "refused":
        case = _refuse(draw, case)
    case = vary(draw, case)
    return spread_rows(draw, case) if contract.strided_rows else case
