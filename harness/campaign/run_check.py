"""What makes a run that was read one that can be drawn: numbers in bounds, parts that fit."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec

from kv_canary_fuzz.reference.contract import CONTRACTS
from kv_canary_fuzz.strategies.classify import MalformedCase, check_case

from ..explaining.explanation import ByteMap
from .coverage import PairMatrix

if TYPE_CHECKING:
    from .summary import Finding, Summary, Timing

_MOST_INT = 2**64
_MOST_FLOAT = 1e15
_MOST_GROUP = 4096


def fault_in(run: Summary) -> str:
    """The first thing that is wrong with it, with its place; empty where nothing is."""
    parts = (
        _numbers("$", msgspec.to_builtins(run)),
        _coverage(run),
        _pairs(run.pairs),
        _workers(run.timing),
        chain.from_iterable(_finding(f"$.findings[{n}]", f) for n, f in enumerate(run.findings)),
    )
    return next(chain.from_iterable(parts), "")


def _numbers(place: str, value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _numbers(f"{place}.{key}", item)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _numbers(f"{place}[{index}]", item)
    elif isinstance(value, int) and not abs(value) <= _MOST_INT:
        yield f"{place}: is beyond 64 bits"
    elif isinstance(value, float) and not abs(value) <= _MOST_FLOAT:
        yield f"{place}: {value:g} is not in {-_MOST_FLOAT:g} .. {_MOST_FLOAT:g}"


def _coverage(run: Summary) -> Iterator[str]:
    if run.settings.contract not in CONTRACTS:
        yield f"$.settings.contract: {run.settings.contract!r} is none of {', '.join(CONTRACTS)}"
    for first, others in run.never_together.items():
        for name in (first, *others):
            if name not in run.features:
                yield f"$.never_together: {name!r} is none of the features that were met"


def _pairs(pairs: PairMatrix) -> Iterator[str]:
    count = len(pairs.families)
    for name, rows in (("met", pairs.met), ("all", pairs.all)):
        if [len(row) for row in rows] != list(range(1, count + 1)):
            yield f"$.pairs.{name}: is no triangle of {count} rows"
        elif min(chain.from_iterable(rows), default=0) < 0:
            yield f"$.pairs.{name}: has a number below 0"


def _workers(timing: Timing) -> Iterator[str]:
    for number, worker in enumerate(timing.workers):
        place = f"$.timing.workers[{number}]"
        if not worker.bucket >= 0.001:
            yield f"{place}.bucket: {worker.bucket:g} is not from 0.001 on"
        if min((worker.began, *worker.rates)) < 0:
            yield f"{place}: has a number below 0"
    if not math.isfinite(timing.core_seconds) or timing.core_seconds < 0:
        yield f"$.timing.core_seconds: {timing.core_seconds:g} is below 0"


def _finding(place: str, finding: Finding) -> Iterator[str]:
    if finding.reproducer is not None:
        try:
            check_case(finding.reproducer.case)
        except MalformedCase as error:
            yield f"{place}.reproducer.case.{error}"
    if finding.explanation is not None:
        if not finding.explanation.differences:
            yield f"{place}.explanation.differences: are none"
        for number, drawn in enumerate(finding.explanation.maps):
            yield from _map(f"{place}.explanation.maps[{number}]", drawn)


def _map(place: str, drawn: ByteMap) -> Iterator[str]:
    for group in drawn.groups:
        if not 0 <= group.size <= _MOST_GROUP:
            yield f"{place}.groups: {group.size} is not in 0 .. {_MOST_GROUP}"
    digits = 2 * sum(group.size for group in drawn.groups)
    for line in drawn.lines:
        if {len(line.expected), len(line.found)} - {0, digits}:
            yield f"{place}.lines: the bytes of {line.label!r} are not those of the groups"
