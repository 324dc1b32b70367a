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
    ``replayed`` cases of the folder ``corpus`` are run first, under the indices below 0, and new
    ones are added to it. ``ledger`` is the file that says which findings are known. ``coverage``
    asks for the lines and branches of the CUDA source that are reached.
    """

    target: str
    reference: str = "torch"
    domain: DomainName = DomainName.CLAIMED
    seed: Annotated[int, Meta(ge=0)] = 0
    cases: int | None = None
    seconds: float | None = None
    batch: int = 128
    shrink_seconds: float = 60.0
    corpus: str | None = None
    replayed: int = 0
    ledger: str | None = None
    coverage: bool = False

    def batch_of(self, index: int) -> int:
        """The number of the batch that starts with case ``index``; batches count from 0."""
        return index // self.batch + self._replayed_batches()

    def batch_range(self, number: int) -> range:
        """The case indices of a batch; empty behind the last case."""
        first = (number - self._replayed_batches()) * self.batch
        end = first + self.batch
        if self.cases is not None:
            end = min(end, max(self.cases, 0))
        return range(max(first, -self.replayed), end)

    def _replayed_batches(self) -> int:
        return -(-self.replayed // self.batch)


class Shard(Struct, frozen=True):
    """One worker's share: batches ``index``, ``index + of``, ``index + 2 * of`` and so on."""

    index: int
    of: int
