"""Reading and making columns."""

from __future__ import annotations

from .case import Column

_LONG = 4096


def expand(column: Column) -> tuple[int, ...]:
    """All ``length`` numbers of a well-formed column."""
    gap = column.length - len(column.values) - len(column.tail)
    if not gap and not column.tail:
        return column.values
    return column.values + (column.fill,) * gap + column.tail


def head(column: Column, count: int) -> tuple[int, ...]:
    """The first ``count`` numbers of a well-formed column; fewer where it is shorter."""
    if count <= len(column.values):
        return column.values[:count]
    return expand(column)[:count]


def at(column: Column, index: int) -> int:
    """The number at an index, which is not negative and in the length."""
    if index < len(column.values):
        return column.values[index]
    from_end = column.length - index
    return column.tail[-from_end] if from_end <= len(column.tail) else column.fill


def occurring(column: Column, count: int) -> tuple[int, ...]:
    """Numbers whose set is that of the first ``count``, without a long run of ``fill``."""
    if count < column.length or count < _LONG:
        return head(column, count)
    return (*column.values, column.fill, *column.tail)


def ascending(numbers: tuple[int, ...]) -> bool:
    """Whether no number is below its predecessor."""
    return list(numbers) == sorted(numbers)


def padded(values: list[int], length: int, fill: int) -> Column:
    """A column that starts with ``values`` and goes on with ``fill``."""
    return Column(values=tuple(values), length=length, fill=fill)
