"""What differs between the revisions of the kv-canary contract, as one value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Contract:
    """One revision: targets carry it; grammar, refusals and reference follow it.

    ``strided_rows``: the rows of a source may lie apart, such as one layer's rows in a buffer of
    all layers, so only the bytes within a row must be packed; where it is False, a source must be
    contiguous. A row too narrow for its page is nothing that they differ in here: `RealKvSource`
    refuses it before any launcher sees it.
    """

    name: str
    strided_rows: bool

    def source_fault(self, strides: Sequence[int], contiguous: bool) -> str | None:
        """Why a launch refuses a source's tensor for where its elements lie; None if it does not.

        ``contiguous`` is the tensor's own answer.
        """
        if not self.strided_rows:
            return None if contiguous else "must be contiguous"
        if not strides or strides[-1] == 1:
            return None
        return f"rows must be packed (stride(-1) == 1), got strides {tuple(strides)}"


DOCUMENTED = Contract(name="2026-08-28", strided_rows=False)
"""The revision of 2026-08-28."""

RELEASED = Contract(name="0.5.23", strided_rows=True)
"""The revision that the package sglang 0.5.23 implements."""

CONTRACTS = {contract.name: contract for contract in (DOCUMENTED, RELEASED)}
"""The revisions by name, the earliest first: what one takes, every later one takes too."""


def earlier(first: Contract, second: Contract) -> Contract:
    """The earlier of two revisions, whose legal launches both of them take."""
    return next(contract for contract in CONTRACTS.values() if contract in (first, second))
