"""Shapes of the report's pictures, in pixels; the templates turn them into SVG."""

from __future__ import annotations

from typing import NamedTuple

from kv_canary_fuzz.harness.campaign.coverage import PairMatrix
from kv_canary_fuzz.harness.explaining.explanation import ByteGroup, ByteLine, ByteMap

CELL_WIDTH, CELL_HEIGHT = 18, 20
GUTTER = 158
GROUP_GAP = 12
HEADER = 44
LINE_GAP = 8
BAND_GAP = 18


class Label(NamedTuple):
    x: float
    y: float
    text: str
    kind: str = ""


class ByteCell(NamedTuple):
    """One byte of one side; ``kind`` is ``same``, ``expected`` or ``found``."""

    x: float
    y: float
    text: str
    kind: str
    title: str


class Header(NamedTuple):
    """A group's name over its bytes; ``differs`` where one of them does."""

    x: float
    y: float
    width: float
    name: str
    offsets: str
    differs: bool


class MapDrawing(NamedTuple):
    width: float
    height: float
    headers: list[Header]
    labels: list[Label]
    cells: list[ByteCell]


def draw_map(drawn: ByteMap, groups_in_a_band: int, *, only_differing: bool = False) -> MapDrawing:
    """Lines down and bytes across, in bands of a few groups that stand one under the other."""
    groups = [
        (number, group)
        for number, group in enumerate(drawn.groups)
        if not only_differing or group_differs(drawn, number)
    ]
    drawing = MapDrawing(0, 0, [], [], [])
    top, width = 0.0, 0.0
    for start in range(0, len(groups), groups_in_a_band):
        band = groups[start : start + groups_in_a_band]
        bottom, right = _draw_band(drawn, band, top, drawing)
        top, width = bottom + BAND_GAP, max(width, right)
    return drawing._replace(width=width, height=max(0.0, top - BAND_GAP))


def group_differs(drawn: ByteMap, number: int) -> bool:
    """Whether any line differs in the bytes of a group."""
    start, end = _hex_range(drawn, number)
    return any(line.expected[start:end] != line.found[start:end] for line in drawn.lines)


def _hex_range(drawn: ByteMap, number: int) -> tuple[int, int]:
    start = sum(group.size for group in drawn.groups[:number])
    return 2 * start, 2 * (start + drawn.groups[number].size)


def _draw_band(
    drawn: ByteMap, band: list[tuple[int, ByteGroup]], top: float, drawing: MapDrawing
) -> tuple[float, float]:
    x = float(GUTTER)
    lefts = []
    for number, group in band:
        width = group.size * CELL_WIDTH
        offsets = f"{group.start}\u2013{group.start + group.size - 1}"
        differs = group_differs(drawn, number)
        drawing.headers.append(Header(x, top, width, group.name, offsets, differs))
        lefts.append(x)
        x += width + GROUP_GAP
    y = top + HEADER
    for line in drawn.lines:
        drawing.labels.append(Label(0, y + 14, line.label, "line"))
        for side in ("expected", "found") if line.differs else ("same",):
            drawing.labels.append(Label(GUTTER - 10, y + 14, side, "side"))
            for left, (number, group) in zip(lefts, band, strict=True):
                _draw_bytes(drawn, line, side, number, group, left, y, drawing)
            y += CELL_HEIGHT
        y += LINE_GAP
    return y - LINE_GAP, x - GROUP_GAP


def _draw_bytes(
    drawn: ByteMap,
    line: ByteLine,
    side: str,
    number: int,
    group: ByteGroup,
    left: float,
    y: float,
    drawing: MapDrawing,
) -> None:
    first, last = _hex_range(drawn, number)
    expected, found = (_bytes(text[first:last]) for text in (line.expected, line.found))
    shown = found if side == "found" else expected
    if not shown:
        drawing.labels.append(Label(left, y + 14, "no such row", "absent"))
        return
    for k, text in enumerate(shown):
        a, b = (data[k] if data else "nothing" for data in (expected, found))
        place = f"{line.label}, {group.name}, byte {group.start + k}"
        title = f"{place}: {a} on both sides" if a == b else f"{place}: expected {a}, found {b}"
        kind = "same" if a == b else side
        drawing.cells.append(ByteCell(left + k * CELL_WIDTH, y, text, kind, title))


def _bytes(text: str) -> list[str]:
    return [text[k : k + 2] for k in range(0, len(text), 2)]


MATRIX_CELL = 13
MATRIX_LABELS = 150


class PairCell(NamedTuple):
    """A pair of families; ``fill`` is the height of the share of pairs that was met."""

    x: float
    y: float
    fill: float
    kind: str
    title: str


class MatrixDrawing(NamedTuple):
    width: float
    height: float
    cells: list[PairCell]
    labels: list[Label]


def draw_matrix(matrix: PairMatrix) -> MatrixDrawing:
    """A triangle of families; a family's name stands at the end of its row, over its column."""
    size = MATRIX_CELL
    cells, labels = [], []
    for row, first in enumerate(matrix.families):
        for column, second in enumerate(matrix.families[: row + 1]):
            met, possible = matrix.met[row][column], matrix.all[row][column]
            if not possible or (row == column and not met):  # values that exclude each other
                continue
            share = met / possible
            kind = "all" if met == possible else "some" if met else "none"
            fill = (size - 2) * share if met else 0.0
            title = f"{first} with {second}: {met} of {possible} pairs met"
            cells.append(PairCell(column * size, row * size, round(fill, 1), kind, title))
        labels.append(Label((row + 1) * size + 5, row * size + 10, first))
    extent = len(matrix.families) * size
    return MatrixDrawing(extent + MATRIX_LABELS, extent, cells, labels)
