"""Passes that make numbers small: together where they must agree, then one by one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from ..case import Case, Column
from .cuts import replace_step
from .order import magnitude
from .problem import Problem, Span, descend, first, remove
from .sites import CASE_SCALARS, FILL, POSITION_COLUMNS, TOKEN_COLUMNS, Site, put, sites, value
from .words import CANARY, Words, content_of, patched_words, put_content, with_words

FAMILIES = (TOKEN_COLUMNS, POSITION_COLUMNS)
"""Columns whose numbers are compared with one another, and with what slots store."""
MANY_VALUES = 64


def plain_numbers(problem: Problem) -> None:
    """Whole families, then whole columns, then runs of numbers to their neutral values."""
    for family in (*FAMILIES, CASE_SCALARS, ("kernel_kind",)):
        _neutralise(problem, [site for site in _heavy(problem.case) if site.field in family])
    for column in dict.fromkeys((site.step, site.field) for site in _heavy(problem.case)):
        heavy = _heavy(problem.case)
        _neutralise(problem, [site for site in heavy if (site.step, site.field) == column])
    base = problem.case
    heavy = _heavy(base)

    def neutralised(spans: Iterable[Span]) -> Case:
        gone = [heavy[k] for start, stop in spans for k in range(start, stop)]
        return put(base, {site: site.neutral for site in gone})

    each = [(k, k + 1) for k in range(len(heavy))]
    remove(each, lambda spans: problem.attempt(neutralised(spans)))


def thin_fills(problem: Problem) -> None:
    """Of a long run of one number the first or the last alone."""
    for site in _heavy(problem.case):
        if site.at == FILL:
            column = getattr(problem.case.steps[site.step], site.field)
            bare = replace(column, fill=site.neutral)
            ends = (
                replace(bare, tail=(column.fill, *column.tail)),
                replace(bare, values=(*column.values, column.fill)),
            )
            first(problem, (_with_column(problem.case, site, end) for end in ends))


def _with_column(case: Case, site: Site, column: Column) -> Case:
    step = replace(case.steps[site.step], **{site.field: column})
    return replace_step(case, site.step, step)


def _heavy(case: Case) -> list[Site]:
    """The sites that are not neutral."""
    return [site for site in sites(case) if value(case, site) != site.neutral]


def _neutralise(problem: Problem, chosen: list[Site]) -> None:
    problem.attempt(put(problem.case, {site: site.neutral for site in chosen}))


def lower_families(problem: Problem) -> None:
    """Equal tokens stay equal and consecutive positions consecutive while both get smaller."""
    for family in FAMILIES:
        for squeeze in (_ranked, _shifted, _stepped):
            known = _values(problem.case, family)
            problem.attempt(_mapped(problem.case, family, squeeze(known)))
        for number in sorted(_values(problem.case, family), key=magnitude, reverse=True):
            if number and len(_values(problem.case, family)) <= MANY_VALUES:
                _lower_value(problem, family, number)


def _lower_value(problem: Problem, family: tuple[str, ...], number: int) -> None:
    """Descend with every occurrence of the value at once."""
    base = problem.case
    descend(number, lambda lower: problem.attempt(_mapped(base, family, {number: lower})))


def _values(case: Case, family: tuple[str, ...]) -> list[int]:
    return sorted({value(case, site) for site in sites(case) if site.field in family})


def _mapped(case: Case, family: tuple[str, ...], numbers: Mapping[int, int]) -> Case:
    """The family's numbers, and equal ones stored in slots, replaced by others."""
    changed = {
        site: numbers[value(case, site)]
        for site in sites(case)
        if site.field in family and value(case, site) in numbers
    }
    stored: Words = {
        index: numbers.get(word, word) if word else word
        for index, word in patched_words(case.canary_buf).items()
    }
    base = content_of(case, CANARY)
    return put_content(put(case, changed), CANARY, with_words(base, stored))


def _ranked(known: list[int]) -> dict[int, int]:
    """To 0, 1, 2 in the same order."""
    return {number: rank for rank, number in enumerate(known)}


def _shifted(known: list[int]) -> dict[int, int]:
    """All down by as much as the least has."""
    least = min((number for number in known if number > 0), default=0)
    return {number: number - least for number in known if number > 0}


def _stepped(known: list[int]) -> dict[int, int]:
    """From 0 on, consecutive where they were, otherwise two apart."""
    stepped: dict[int, int] = {}
    for before, number in zip([None, *known], known, strict=False):
        apart = 1 if before is not None and number == before + 1 else 2
        stepped[number] = 0 if before is None else stepped[before] + apart
    return stepped


def lower_numbers(problem: Problem) -> None:
    """Every number for itself, those first that matter least to a reader."""
    for site in reversed(_heavy(problem.case)):
        if site in set(_heavy(problem.case)):
            _lower_site(problem, site)


def _lower_site(problem: Problem, site: Site) -> None:
    descend(
        value(problem.case, site),
        lambda number: problem.attempt(put(problem.case, {site: number})),
        site.neutral,
    )
