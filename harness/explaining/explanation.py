"""Why a finding is one, as values that are stored and drawn: bytes, chain, rows."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Difference(Struct, frozen=True):
    """One difference in the contract's terms; causes come before consequences."""

    kind: str
    place: str
    expected: str
    found: str


class ByteGroup(Struct, frozen=True):
    """Neighbouring bytes of a line that have one name; ``start`` counts from the line's first."""

    name: str
    start: int
    size: int


class ByteLine(Struct, frozen=True):
    """The shown bytes of one slot, row or stretch on both sides, in hex, all groups in a row.

    A side is empty where it has no such line, as with a violation row that one side lacks.
    """

    label: str
    expected: str
    found: str
    note: str = ""

    @property
    def differs(self) -> bool:
        return self.expected != self.found


class ByteMap(Struct, frozen=True):
    """Bytes of a region around what differs. ``more`` lines differ as well and are not shown."""

    title: str
    unit: str
    groups: tuple[ByteGroup, ...]
    lines: tuple[ByteLine, ...]
    more: int = 0


class LinkState(StrEnum):
    """What became of the link from a slot to its predecessor."""

    HOLDS = "holds"
    BROKEN = "broken"
    SKIPPED = "skipped"
    UNCHECKED = "not checked"


class Link(Struct, frozen=True):
    """One entry of a chain. Hashes are as stored in the slot, empty where nothing is stored.

    ``wrong`` names the fields of the slot that differ between the two sides.
    """

    entry: int
    slot: int
    predecessor: str
    token: int
    position: int
    expected_hash: str
    found_hash: str
    state: LinkState
    wrong: tuple[str, ...] = ()
    first: bool = False


class Chain(Struct, frozen=True):
    """The entries of one request, or of one verify plan, around the first broken link.

    ``before`` and ``after`` count entries that are not shown.
    """

    title: str
    links: tuple[Link, ...]
    verdict: str
    before: int = 0
    after: int = 0


class RowPair(Struct, frozen=True):
    """A violation row as expected and as found; None where a side has no such row."""

    expected: tuple[str, ...] | None
    found: tuple[str, ...] | None

    @property
    def differs(self) -> bool:
        return self.expected != self.found


class RowTable(Struct, frozen=True):
    """Rows side by side, those that differ first; ``more`` are not shown."""

    fields: tuple[str, ...]
    pairs: tuple[RowPair, ...]
    more: int = 0


class Explanation(Struct, frozen=True, kw_only=True):
    """Where the two sides part on the shrunk case, after ``step``, and what that means."""

    step: int
    step_kind: str
    headline: str
    meaning: str
    differences: tuple[Difference, ...]
    more: int = 0
    maps: tuple[ByteMap, ...] = ()
    chain: Chain | None = None
    rows: RowTable | None = None
