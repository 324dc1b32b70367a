"""Passes that change two things at once, where neither change is simpler and failing alone.

They give findings of one bug one form: a weight (a number or word that is not plain) moves to the
place where it reads best, two numbers fall together, and entries are put into order. Tried on
cases that are small already.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, combinations
from typing import TypeVar

from msgspec.structs import replace

from ..case import Case, VerifyStep, WriteStep
from ..content import Content
from ..values import as_int64
from .contents import put_word
from .cuts import cut_requests, cut_sources, map_column, replace_step
from .layout import plain_source
from .order import magnitude
from .problem import Problem, first
from .sites import SHORT, Site, column_names, put, sites, value
from .structure import plainer_steps
from .words import (
    WORD_BYTES,
    content_of,
    patched_words,
    read_words,
    region_names,
    region_size,
    signed,
    with_words,
)

FEW_WEIGHTS = 12
FEW_WORDS = 32
"""Words at the start of a region that a weight may move to."""
FEW_ENTRIES = 16
SHAPES = tuple((width, read) for width in (16, 32, 48) for read in (16, 32, 48) if read <= width)
"""num_bytes_per_token and read_bytes of small sources."""
_STRUCTURE = ("write_offsets", "write_num_valid_reqs", "verify_num_valid", "enable")

AnyStep = TypeVar("AnyStep", WriteStep, VerifyStep)
Place = Site | tuple[str, int]
"""A number of the case, or a word of a region."""


def read_place(case: Case, place: Place) -> int:
    if isinstance(place, Site):
        return value(case, place)
    region, index = place
    return read_words(content_of(case, region), [index])[index]


def put_place(case: Case, place: Place, number: int) -> Case:
    """The case with another number at a place; a word takes the low 64 bits, as a schedule has."""
    if isinstance(place, Site):
        return put(case, {place: number})
    return put_word(case, *place, as_int64(number))


def neutral(place: Place) -> int:
    return place.neutral if isinstance(place, Site) else 0


def weights(case: Case) -> list[Place]:
    """What is not plain, words first."""
    words: list[Place] = [
        (region, index)
        for region in region_names(case)
        for index, word in patched_words(content_of(case, region)).items()
        if word
    ]
    numbers: list[Place] = [
        site
        for site in sites(case)
        if site.field not in _STRUCTURE and value(case, site) != site.neutral
    ]
    return words + numbers


def trade(problem: Problem) -> None:
    """One thing plainer and one number different, until no such pair is simpler and fails."""
    while len(weights(problem.case)) <= FEW_WEIGHTS:
        case = problem.case
        if not first(problem, chain(_swapped_asserts(case), _regrown(case), _trades(case))):
            return


def _trades(case: Case) -> Iterator[Case]:
    for weight in weights(case):
        number = read_place(case, weight)
        for lower in (neutral(weight), 1, -1):
            if magnitude(lower - neutral(weight)) < magnitude(number - neutral(weight)):
                yield from _pays(put_place(case, weight, lower), weight, number)
    for one, other in combinations(weights(case), 2) if len(weights(case)) <= 3 else ():
        lighter = put_place(put_place(case, one, neutral(one)), other, neutral(other))
        yield from _pays(lighter, None, 1)
    for lighter in _switched_off(case):
        yield from _pays(lighter, None, 1)


def _pays(case: Case, weight: Place | None, number: int) -> Iterator[Case]:
    """The case with one of its other numbers or words changed."""
    for target in _targets(case):
        if target != weight:
            usual = 0 if isinstance(target, Site) else 1
            for paid in dict.fromkeys((1, -1, number, usual, neutral(target))):
                yield put_place(case, target, paid)


def _targets(case: Case) -> Iterator[Place]:
    numbers = [site for site in sites(case) if site.field not in _STRUCTURE]
    yield from reversed(numbers)
    yield from _ends(case)
    for region in region_names(case):
        words = min(region_size(case, region) // WORD_BYTES, FEW_WORDS)
        taken = patched_words(content_of(case, region))
        yield from ((region, index) for index in range(words) if not taken.get(index))


def _ends(case: Case) -> Iterator[Site]:
    """The last numbers of columns that end in their fill."""
    for number, step in enumerate(case.steps):
        for name in column_names(step):
            column = getattr(step, name)
            if column.length > SHORT and not column.tail:
                yield Site(number, name, column.length - 1)


def _switched_off(case: Case) -> Iterator[Case]:
    for k in range(len(case.real_kv_sources)):
        yield cut_sources(case, [(k, k + 1)])
    for mode in range(case.real_kv_hash_mode):
        yield replace(case, real_kv_hash_mode=mode)
    for number, step in enumerate(case.steps):
        for plainer in plainer_steps(step):
            yield replace_step(case, number, plainer(step))


def _regrown(case: Case) -> Iterator[Case]:
    """Fewer sources of a larger shape, or fewer requests with a source that they had not."""
    sources = case.real_kv_sources
    for k in range(len(sources) if len(sources) > 1 else 0):
        alone = cut_sources(case, [(0, k), (k + 1, len(sources))])
        for width, read in SHAPES:
            grown = plain_source(alone, width, read)
            content = with_words(Content(), {0: 1})
            yield replace(alone, real_kv_sources=(replace(grown, content=content),))
            yield replace(alone, real_kv_sources=(grown,))
    if sources:
        return
    hashed = replace(case, real_kv_sources=(plain_source(case, *SHAPES[0]),), real_kv_hash_mode=1)
    for number, step in enumerate(case.steps):
        if isinstance(step, WriteStep):
            requests = step.write_seed_slot_indices.length
            for fewer in dict.fromkeys((requests // 2, 1)):
                if 0 < fewer < requests:
                    yield replace_step(hashed, number, cut_requests(step, [(0, fewer)]))


def _swapped_asserts(case: Case) -> Iterator[Case]:
    """A row for a position that does not follow its seed's, in place of one for an input."""
    for number, step in enumerate(case.steps):
        if isinstance(step, WriteStep) and step.enable_write_input_assert:
            seeds = map_column(step.write_seed_slot_indices, lambda seed: max(seed, 0))
            chained = replace(
                step,
                enable_write_input_assert=False,
                expected_input_tokens=None,
                expected_input_positions=None,
                enable_chain_position_assert=1,
                write_seed_slot_indices=seeds,
            )
            yield replace_step(case, number, chained)


def lower_pairs(problem: Problem) -> None:
    """Two numbers down by the same amount, modulo 2**64."""
    heavy = weights(problem.case)
    if len(heavy) <= FEW_WEIGHTS:
        for one, other in combinations(heavy, 2):
            first(problem, _lower_pair(problem.case, one, other))


def _lower_pair(case: Case, one: Place, other: Place) -> Iterator[Case]:
    a, b = read_place(case, one), read_place(case, other)
    amounts = (near + step for near in sorted((a, b), key=magnitude) for step in (0, 1, -1, 2, -2))
    for amount in dict.fromkeys(amounts):
        yield put_place(put_place(case, one, signed(a - amount)), other, signed(b - amount))
