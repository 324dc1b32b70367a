"""Passes that change two things at once, where neither change is simpler and failing alone.

They give findings of one bug one form: a weight (a number or word that is not plain) moves to the
place where it reads best, two numbers fall together, and entries are put into order. Tried on
cases that are small already.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import TypeVar

from msgspec.structs import replace

from .case import Case, Column, Step, VerifyStep, WriteStep
from .columns import expand
from .cuts import cut_sources, map_column, replace_step
from .order import magnitude
from .problem import Problem, first
from .simplify_contents import put_word
from .simplify_structure import plainer_steps
from .sites import ENTRY_COLUMNS, SHORT, VERIFY_COLUMNS, Site, put, put_in_column, sites, value
from .words import WORD_BYTES, content_of, patched_words, read_words, region_names, region_size

FEW_WEIGHTS = 12
FEW_WORDS = 32
"""Words at the start of a region that a weight may move to."""
FEW_ENTRIES = 16
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
    if isinstance(place, Site):
        return put(case, {place: number})
    return put_word(case, *place, number)


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
        if not first(problem, _swapped_asserts(case)) and not first(problem, _trades(case)):
            return


def _trades(case: Case) -> Iterator[Case]:
    for weight in weights(case):
        number = read_place(case, weight)
        for lower in (neutral(weight), 1, -1):
            if magnitude(lower - neutral(weight)) < magnitude(number - neutral(weight)):
                yield from _pays(put_place(case, weight, lower), weight, number)
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
    for region in region_names(case):
        words = min(region_size(case, region) // WORD_BYTES, FEW_WORDS)
        taken = patched_words(content_of(case, region))
        yield from ((region, index) for index in range(words) if not taken.get(index))


def _switched_off(case: Case) -> Iterator[Case]:
    for k in range(len(case.real_kv_sources)):
        yield cut_sources(case, [(k, k + 1)])
    for mode in range(case.real_kv_hash_mode):
        yield replace(case, real_kv_hash_mode=mode)
    for number, step in enumerate(case.steps):
        for plainer in plainer_steps(step):
            yield replace_step(case, number, plainer(step))


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
    """Two numbers down by the same amount."""
    heavy = weights(problem.case)
    if len(heavy) > FEW_WEIGHTS:
        return
    for one, other in combinations(heavy, 2):
        first(problem, _lower_pair(problem.case, one, other))


def _lower_pair(case: Case, one: Place, other: Place) -> Iterator[Case]:
    a, b = read_place(case, one), read_place(case, other)
    if a * b <= 0:
        return
    less = min(a, b, key=magnitude)
    sign = 1 if less > 0 else -1
    for amount in dict.fromkeys((less, less - sign, less - 2 * sign)):
        if amount * sign > 0:
            yield put_place(put_place(case, one, a - amount), other, b - amount)


def sort_entries(problem: Problem) -> None:
    """Neighbouring entries, and neighbouring requests, exchanged until they stand in order."""
    for number in range(len(problem.case.steps)):
        swapped = True
        while swapped:
            case = problem.case
            swapped = first(
                problem, (replace_step(case, number, s) for s in _exchanged(case.steps[number]))
            )


def _exchanged(step: Step) -> Iterator[Step]:
    if isinstance(step, VerifyStep):
        for index in range(_few(step.verify_slot_indices) - 1):
            yield _permuted(step, VERIFY_COLUMNS, {index: index + 1, index + 1: index})
    elif isinstance(step, WriteStep):
        for index in range(_few(step.input_ids) - 1):
            yield _permuted(step, ENTRY_COLUMNS, {index: index + 1, index + 1: index})
        if _few(step.input_ids) == step.input_ids.length:
            offsets = expand(step.write_offsets)
            for request in range(_few(step.write_offsets) - 2):
                yield from _exchanged_requests(step, offsets, request)


def _few(column: Column) -> int:
    """How many of a column's numbers take part."""
    return min(column.length, FEW_ENTRIES) if column.length <= SHORT else 0


def _exchanged_requests(
    step: WriteStep, offsets: tuple[int, ...], request: int
) -> Iterator[WriteStep]:
    start, middle, stop = offsets[request : request + 3]
    if not 0 <= start <= middle <= stop <= step.input_ids.length:
        return
    order = [*range(middle, stop), *range(start, middle)]
    moved = _permuted(step, ENTRY_COLUMNS, dict(enumerate(order, start)))
    seeds = _permuted(
        moved, ("write_seed_slot_indices",), {request: request + 1, request + 1: request}
    )
    new = {request + 1: start + stop - middle}
    yield replace(seeds, write_offsets=put_in_column(step.write_offsets, new))


def _permuted(step: AnyStep, names: tuple[str, ...], origin: dict[int, int]) -> AnyStep:
    """The columns with index i holding what index ``origin[i]`` held."""
    changed = {}
    for name in names:
        column = getattr(step, name)
        if column is not None:
            found = expand(column)
            changed[name] = put_in_column(column, {to: found[at] for to, at in origin.items()})
    return replace(step, **changed)
