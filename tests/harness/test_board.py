"""The board: hunts in worker processes, their figures, and what is printed of them."""

from __future__ import annotations

from io import StringIO

import msgspec
import pytest
from rich.console import Console

from kv_canary_fuzz.harness.board.board import Standing, known_bugs, run_board
from kv_canary_fuzz.harness.board.hunt import Hunt, Kill, Reduced, hunt
from kv_canary_fuzz.harness.board.hunters import CRASH
from kv_canary_fuzz.harness.targets.target import TargetError
from kv_canary_fuzz.kernels.planted import planted_bugs
from kv_canary_fuzz.reports.board_text import board_table, closing_lines, kinds_table


def text_of(*parts):
    console = Console(file=StringIO(), width=160)
    for part in parts:
        console.print(part)
    return console.file.getvalue()


def standing(name, *cases, kind="rows"):
    kills = tuple(Kill(cases=n, seconds=0.5, signature="write: x" if n else "") for n in cases)
    return Standing(name=name, kind=kind, description="d.", kills=kills)


def test_a_bug_that_kills_its_process_is_found_and_takes_no_other_with_it():
    done = []

    crashing, other = run_board(["row_past_ring", "mix_order"], (1, 2), workers=1, show=done.append)

    assert crashing.found
    assert {kill.signature for kill in crashing.kills} == {CRASH}
    assert other.found
    assert [kill.reduced is None for kill in other.kills] == [False, True]
    assert other.shown.signature == "write: canary_buf.prev_hash"
    assert done == [1, 2, 3, 4]


def test_a_hunt_that_finds_nothing_says_so():
    told = []

    kill = hunt(Hunt(bug="last_tile_short", seed=1, most_cases=40, shrink=True), told.append)

    assert (kill.cases, kill.signature, kill.reduced) == (None, "", None)
    assert told == [16, 40]


def test_bugs_are_asked_for_by_name_and_by_kind():
    ring = [bug.name for bug in planted_bugs() if bug.kind == "ring"]

    assert known_bugs(()) == [bug.name for bug in planted_bugs()]
    assert known_bugs(["ring", "mix_order"]) == ["mix_order", *ring]
    with pytest.raises(TargetError, match="'typo' is no planted bug and no kind"):
        known_bugs(["typo"])


def test_medians_count_a_seed_that_found_nothing_as_later_than_any():
    assert standing("a", 9, 1, 5).median_cases == 5
    assert standing("a", 9, None, 5).median_cases == 9
    assert standing("a", None, None, 5).median_cases is None
    assert not standing("a", 9, None, 5).found


def test_tables_and_closing_lines():
    found, missed = standing("early", 3, 4, 8), standing("late", 20, None, 30, kind="grid")

    text = text_of(board_table([found, missed]), kinds_table([found, missed]))

    line = next(line for line in text.splitlines() if "early" in line)
    assert line.replace("│", "").split() == ["rows", "early", "yes", "4", "0.50", "write:", "x"]
    assert "2 of 3" in text
    assert closing_lines([found, missed]) == [
        "kill rate: 50.0 % (1 of 2 found from each of 3 seeds)",
        "median cases to kill: 4",
        "not found from every seed: late",
    ]


def test_figures_survive_json():
    kill = Kill(cases=3, seconds=0.5, signature="s", reduced=Reduced(1, 2, 300))
    whole = [Standing(name="n", kind="k", description="d.", kills=(kill,))]

    assert msgspec.json.decode(msgspec.json.encode(whole), type=list[Standing]) == whole
