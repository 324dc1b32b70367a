"""The board of planted bugs as tables: bug by bug, and kind by kind."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median_low

from rich.table import Table

from kv_canary_fuzz.harness.board.board import Standing


def board_table(standings: Sequence[Standing]) -> Table:
    """A line for each bug: cases until found, from every seed, and what the finding looks like."""
    table = Table("kind", "bug", "found", "cases", "seconds", "signature")
    for column in ("steps", "entries", "bytes"):
        table.add_column(column, justify="right")
    for standing in standings:
        reduced = standing.shown.reduced
        sizes = (reduced.steps, reduced.entries, reduced.bytes) if reduced else ("", "", "")
        found = sum(kill.cases is not None for kill in standing.kills)
        table.add_row(
            standing.kind,
            standing.name,
            "yes" if standing.found else f"{found} of {len(standing.kills)}",
            _cases(standing.median_cases),
            f"{standing.seconds:.2f}",
            standing.shown.signature,
            *map(str, sizes),
        )
    return table


def kinds_table(standings: Sequence[Standing]) -> Table:
    """A line for each kind, in the order in which they first come."""
    table = Table("kind")
    for column in ("bugs", "found from every seed", "median cases", "most cases of a seed"):
        table.add_column(column, justify="right")
    for kind in dict.fromkeys(standing.kind for standing in standings):
        chosen = [standing for standing in standings if standing.kind == kind]
        table.add_row(kind, *_summary(chosen))
    table.add_section()
    table.add_row("all", *_summary(standings))
    return table


def closing_lines(standings: Sequence[Standing]) -> list[str]:
    """The kill rate, the median cases to kill, and what was not found."""
    found = [standing for standing in standings if standing.found]
    seeds = len(standings[0].kills) if standings else 0
    rate = 100 * len(found) / len(standings) if standings else 0.0
    lines = [
        f"kill rate: {rate:.1f} % ({len(found)} of {len(standings)} found from each of "
        f"{seeds} seeds)",
        f"median cases to kill: {_cases(median_of(standings))}",
    ]
    missed = [standing.name for standing in standings if not standing.found]
    if missed:
        lines.append(f"not found from every seed: {', '.join(missed)}")
    return lines


def median_of(standings: Sequence[Standing]) -> int | None:
    """The median of the bugs' medians, over those that have one."""
    medians = [s.median_cases for s in standings if s.median_cases is not None]
    return median_low(medians) if medians else None


def _summary(standings: Sequence[Standing]) -> tuple[str, ...]:
    found = sum(standing.found for standing in standings)
    cases = [kill.cases for standing in standings for kill in standing.kills]
    known = [number for number in cases if number is not None]
    return (
        str(len(standings)),
        str(found),
        _cases(median_of(standings)),
        _cases(max(known, default=None)),
    )


def _cases(number: int | None) -> str:
    return "never" if number is None else f"{number:,}"
