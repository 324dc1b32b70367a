"""The violation ring (contract, section 6) of a batch of launches."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from . import consts
from .ragged import places, where_true
from .table import LaunchTable


@dataclass(frozen=True)
class Rows:
    """The violation rows that launches produced, stored or not, in the order of appending.

    ``launch`` is int64 [rows], the launch's index in its batch, ascending; ``values`` is int64
    [rows, 8], the fields of the contract.
    """

    launch: torch.Tensor
    values: torch.Tensor


def append(table: LaunchTable, rows: Rows) -> None:
    """Give each row the next sequence number of its launch's ring, and store it where it fits."""
    launch = rows.launch
    if not len(launch):
        return
    index = table.flat("violation_write_index")
    before = table.scalars("violation_write_index")
    produced = torch.bincount(launch, minlength=len(before))
    sequence = _wrap(before.index_select(0, launch).add_(places(launch, produced)))
    index.index_copy_(0, table["violation_write_index"], _wrap(before + produced).int())
    fits = (sequence >= 0) & (sequence < table.of("ring_capacity", launch))
    stored = where_true(fits)
    offset = sequence.mul_(consts.VIOLATION_FIELDS).add_(table.of("violation_ring", launch))
    store_fields(
        table.flat("violation_ring"),
        offset.index_select(0, stored),
        rows.values.index_select(0, stored),
    )


def store_fields(flat: torch.Tensor, offset: torch.Tensor, fields: torch.Tensor) -> None:
    """Store row k of ``fields`` [n, width] at ``flat[offset[k]]`` onward; offsets are distinct."""
    column = torch.arange(fields.shape[1], device=flat.device)
    flat.scatter_(0, (offset.unsqueeze(1) + column).view(-1), fields.reshape(-1))


def _wrap(number: torch.Tensor) -> torch.Tensor:
    """int64 numbers as int32 in two's complement, still held in int64."""
    return ((number + 2**31) & (2**32 - 1)) - 2**31
