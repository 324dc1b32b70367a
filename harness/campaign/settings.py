"""What a campaign is asked to do."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from kv_canary_fuzz.reference.contract import CONTRACTS, DOCUMENTED, Contract

MOST_SEED = 2**64 - 1

WIDE_BATCH = 512
"""Cases run together where there are very many: the torch reference takes a third less for each."""


class SettingsError(Exception):
    """A campaign that cannot be run as it was asked for; the message is one line."""


class DomainName(StrEnum):
    """What a campaign generates: what the target claims, or a domain of the grammar."""

    CLAIMED = "claimed"
    VALID = "valid"
    HARDENED = "hardened"
    REFUSED = "refused"
    ALL = "all"


class Settings(Struct, frozen=True, kw_only=True):
    """One campaign. It ends after ``cases`` cases or ``seconds``, whichever is given.

    ``target`` "auto" and ``domain`` "claimed" are asked for and settled before it begins; so is
    ``contract``, the name of the revision that target and reference follow.
    ``batch`` cases are run together. ``shrink_seconds`` bounds the shrinking of each finding.
    ``replayed`` cases of the folder ``corpus`` are run first, under the indices below 0, and new
    ones are added to it. ``ledger`` is the file that says which findings are known. ``third``
    is the target that says of each finding who stands alone; the scalar model where it is None.
    ``coverage`` asks for the lines and branches of the CUDA source that are reached. A launch may
    take ``deadline`` seconds of processor time, and more where launches are slow.
    """

    target: str
    reference: str = "torch"
    domain: DomainName = DomainName.CLAIMED
    contract: str = DOCUMENTED.name
    seed: Annotated[int, Meta(ge=0)] = 0
    cases: int | None = None
    seconds: float | None = None
    batch: int = 128
    shrink_seconds: float = 60.0
    deadline: float = 2.0
    corpus: str | None = None
    replayed: int = 0
    ledger: str | None = None
    third: str | None = None
    coverage: bool = False

    @property
    def revision(self) -> Contract:
        """The revision of the contract that cases are made for."""
        return CONTRACTS[self.contract]

    def check(self) -> None:
        """Raises SettingsError where a number makes no campaign."""
        if not 0 <= self.seed <= MOST_SEED:
            raise SettingsError(f"the seed must be 0 to {MOST_SEED}, got {self.seed}")
        if self.cases is not None and self.cases < 1:
            raise SettingsError(f"cases must be at least 1, got {self.cases}")
        if self.seconds is not None and not self.seconds > 0:
            raise SettingsError(f"seconds must be more than 0, got {self.seconds:g}")
        if not self.shrink_seconds >= 0:
            raise SettingsError(f"shrink-seconds must not be negative, got {self.shrink_seconds:g}")

    @property
    def batches(self) -> int:
        """How many batches there are, at most."""
        cases = sys.maxsize if self.cases is None else self.cases
        return -(-cases // self.batch) + self._replayed_batches()

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
