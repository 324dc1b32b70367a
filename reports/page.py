"""The report of a run: one HTML file that needs no network, no script and no other file."""

from __future__ import annotations

from functools import lru_cache
from io import StringIO
from pathlib import Path

import jinja2
from rich.console import Console

from kv_canary_fuzz.harness.campaign.coverage import family
from kv_canary_fuzz.harness.campaign.summary import Summary
from kv_canary_fuzz.harness.explaining.explanation import ByteMap
from kv_canary_fuzz.harness.findings.reproducer import Reproducer, encode_reproducer
from kv_canary_fuzz.strategies.features.features import expected_features

from .case_text import sequence_text
from .coverage_text import bounds_line, pairs_line
from .drawing import MapDrawing, draw_map, draw_matrix, group_differs
from .source_text import place_text, share_text
from .throughput import draw_throughput

WIDE, NARROW = 760, 340
"""Widths of the pictures, in pixels, for a screen and for a telephone."""

TEXT_WIDTH = 110


def report_html(summary: Summary) -> str:
    """The whole page."""
    matrix = summary.pairs
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            run=summary,
            style=(Path(__file__).parent / "templates" / "style.css").read_text(encoding="utf-8"),
            throughput=[draw_throughput(summary.timing, width) for width in (WIDE, NARROW)],
            matrix=draw_matrix(matrix),
            families=_families(summary),
            features_met=sum(summary.features.get(name, 0) > 0 for name in _names(summary)),
            features_all=len(_names(summary)),
        )
    )


def _names(summary: Summary) -> tuple[str, ...]:
    return expected_features(summary.settings.domain, summary.settings.revision)


def _families(summary: Summary) -> list[tuple[str, list[tuple[str, int, str]]]]:
    """Each family of features: its values, the cases that had each, and the share that may fail."""
    bounds = summary.bounds.features if summary.bounds else {}
    grouped: dict[str, list[tuple[str, int, str]]] = {}
    for name in _names(summary):
        value = name.partition(":")[2] or "yes"
        bound = f"{bounds[name]:.2g}" if name in bounds else ""
        grouped.setdefault(family(name), []).append((value, summary.features.get(name, 0), bound))
    return list(grouped.items())


def _wide(drawn: ByteMap) -> MapDrawing:
    return draw_map(drawn, 4)


def _narrow(drawn: ByteMap) -> MapDrawing:
    return draw_map(drawn, 1, only_differing=True)


def _same_groups(drawn: ByteMap) -> int:
    return sum(not group_differs(drawn, number) for number in range(len(drawn.groups)))


def _case_words(found: Reproducer) -> str:
    console = Console(file=StringIO(), width=TEXT_WIDTH, no_color=True, force_terminal=False)
    console.print(sequence_text(found.case, found.company), highlight=False)
    assert isinstance(console.file, StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())


def _file_text(found: Reproducer) -> str:
    return encode_reproducer(found).decode()


@lru_cache(maxsize=1)
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("kv_canary_fuzz.reports"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "wide": _wide,
        "narrow": _narrow,
        "same_groups": _same_groups,
        "case_words": _case_words,
        "file_text": _file_text,
        "bounds": bounds_line,
        "pairs": pairs_line,
        "share": share_text,
        "place": place_text,
        "number": lambda value: f"{value:,.0f}",
    }
    return environment
