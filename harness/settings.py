"""What a campaign is asked to do."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct


class DomainName(StrEnum):
    """What a campaign generates: what the target claims, or a domain of the grammar."""

    CLAIMED = "claimed"
    VALID = "valid"
    HARDENED = "hardened"
    REFUSED = "refused"
    ALL = "all"


class Settings(Struct, frozen=True, kw_only=True):
    """One campaign. It ends after ``cases`` cases or ``seconds``, whichever is given.

    ``target`` "auto" and ``domain`` "claimed" are asked for and settled before it begins.
    ``batch`` cases are run together. ``shrink_seconds`` bounds the shrinking of each finding.
    """

    target: str
    reference: str = "torch"
    domain: DomainName = DomainName.CLAIMED
    seed: Annotated[int, Meta(ge=0)] = 0
    cases: int | None = None
    seconds: float | None = None
    batch: int = 128
    shrink_seconds: float = 60.0


class Shard(Struct, frozen=True):
    """One worker's share: batches ``index``, ``index + of``, ``index + 2 * of`` and so on."""

    index: int
    of: int
