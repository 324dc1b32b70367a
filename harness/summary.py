"""What a campaign found, as values that are printed and stored."""

from __future__ import annotations

from msgspec import Struct

from .settings import Settings


class Finding(Struct, frozen=True, kw_only=True):
    """One signature: how often it was met, and the file that replays it.

    ``alone`` names who stands alone among target, reference and scalar model, where they vote.
    """

    signature: str
    count: int
    first_index: int
    file: str
    lines: tuple[str, ...] = ()
    alone: str = ""


class Summary(Struct, frozen=True, kw_only=True):
    """The end of a campaign.

    ``core_seconds`` adds up the workers' time. ``never_met`` names features of the domain that no
    case had.
    """

    settings: Settings
    cases: int
    core_seconds: float
    features: dict[str, int]
    never_met: tuple[str, ...]
    findings: tuple[Finding, ...]
    versions: dict[str, str]

    @property
    def rate(self) -> float:
        """Cases per second and core."""
        return self.cases / self.core_seconds if self.core_seconds else 0.0
