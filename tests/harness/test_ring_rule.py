"""When two rings are equal (contract, section 6; field reports H1, H2, K18)."""

from __future__ import annotations

import numpy as np
import pytest

from kv_canary_fuzz.harness.judging.ring import (
    Appended,
    advance,
    ring_differences,
    stored_positions,
    untouched_positions,
)


def rows(*numbers: int) -> np.ndarray:
    """Rows that are told apart by ``number`` in two fields."""
    return np.array([[n, 0, 0, 0, 0, 0, 10 * n, 1] for n in numbers], np.int64).reshape(-1, 8)


@pytest.mark.parametrize(
    ("index", "produced", "capacity", "positions", "after"),
    [
        (0, 3, 4, [0, 1, 2], 3),
        (2, 3, 4, [2, 3], 5),
        (5, 2, 4, [], 7),
        (-2, 3, 4, [0], 1),
        (-5, 3, 4, [], -2),
        (2**31 - 1, 3, 4, [], -(2**31) + 2),
        (-(2**31), 1, 4, [], -(2**31) + 1),
        (0, 0, 4, [], 0),
        (0, 2, 0, [], 2),
    ],
)
def test_where_rows_are_stored(
    index: int, produced: int, capacity: int, positions: list[int], after: int
) -> None:
    assert stored_positions(index, produced, capacity) == positions
    assert advance(index, produced) == after


BEFORE = np.full((8, 8), -7, np.int64)


def appended(*launches: np.ndarray, index: int = 0, final: int | None = None) -> Appended:
    produced = list(enumerate(launches))
    total = sum(len(launch) for launch in launches)
    return Appended(BEFORE, index, produced, advance(index, total) if final is None else final)


def ring(*found: np.ndarray) -> np.ndarray:
    """The given rows, then what was there before."""
    return np.concatenate([*found, BEFORE])[: len(BEFORE)]


def row(number: int) -> tuple[int, ...]:
    return tuple(rows(number)[0].tolist())


def test_rows_of_one_launch_may_stand_in_any_order() -> None:
    assert list(ring_differences(appended(rows(1, 2, 3)), ring(rows(3, 1, 2)))) == []


def test_rows_of_an_earlier_launch_come_first() -> None:
    swapped = list(ring_differences(appended(rows(1), rows(2)), ring(rows(2, 1))))
    assert [difference.step for difference in swapped] == [0, 1]


def test_a_full_ring_may_keep_any_of_the_rows() -> None:
    assert list(ring_differences(appended(rows(1, 2, 3)), rows(3, 1))) == []


def test_a_full_ring_may_not_keep_a_row_twice() -> None:
    [difference] = ring_differences(appended(rows(1, 2, 3)), rows(1, 1))
    assert difference.extra == (row(1),)


def test_swapped_fields_are_seen_although_each_column_holds_the_same() -> None:
    found = rows(1, 2)
    found[:, 6] = found[::-1, 6].copy()
    [difference] = ring_differences(appended(rows(1, 2)), ring(found))
    assert len(difference.missing) == len(difference.extra) == 2


def test_a_row_that_was_never_appended_is_missing() -> None:
    [difference] = ring_differences(appended(rows(1, 2), final=1), ring(rows(2)))
    assert (difference.missing, difference.extra) == ((row(1),), ())


def test_a_row_that_was_appended_without_need_is_extra() -> None:
    [difference] = ring_differences(appended(rows(1), final=2), ring(rows(1, 2)))
    assert (difference.missing, difference.extra) == ((), (row(2),))


def test_a_row_that_was_counted_and_not_stored() -> None:
    [difference] = ring_differences(appended(rows(1, 2)), ring(rows(2)))
    assert difference.unstored == (1,)
    assert difference.extra == ()


def test_rows_that_nothing_stored_to() -> None:
    assert untouched_positions(appended(rows(1), rows(2), index=1)) == [0, 3, 4, 5, 6, 7]
