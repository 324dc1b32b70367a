"""Stored canary slots of a batch of launches (contract, section 2)."""

from __future__ import annotations

from typing import NamedTuple

import torch

from . import consts
from .hashing import mix3
from .table import LaunchTable


class Slots(NamedTuple):
    """The four fields of slots, int64 [slots] each."""

    token: torch.Tensor
    position: torch.Tensor
    prev_hash: torch.Tensor
    real_kv_hash: torch.Tensor

    def links(self) -> torch.Tensor:
        """The prev_hash that each slot's successor stores."""
        return mix3(self.prev_hash, self.token, self.position)


def slot_offsets(table: LaunchTable, launch: torch.Tensor, slot: torch.Tensor) -> torch.Tensor:
    """Where slot ``slot[k]`` of launch ``launch[k]`` begins in the flat canary buffer."""
    return table.of("slot_words", launch).mul_(slot).add_(table.of("canary_buf", launch))


def load_slots(table: LaunchTable, launch: torch.Tensor, slot: torch.Tensor) -> Slots:
    """The stored fields of slot ``slot[k]`` of launch ``launch[k]``, all within the buffers."""
    fields = torch.arange(consts.CANARY_FIELDS_PER_SLOT, device=slot.device).unsqueeze(1)
    index = fields + slot_offsets(table, launch, slot)
    flat = table.flat("canary_buf")
    return Slots(*flat.index_select(0, index.view(-1)).view(index.shape).unbind(0))
