"""The verify kernel's meaning over a batch of launches (contract, sections 5 and 8)."""

from __future__ import annotations

import torch

from .enums import FailReason
from .folding import real_kv_hashes
from .hashing import CHAIN_HEAD
from .ragged import expand, where_true
from .ring import Rows, append
from .slots import Slots, load_slots
from .table import LaunchTable


def run_verify(table: LaunchTable) -> Rows:
    """Run the launches of the table; the rows they produced, stored or not."""
    runs = table.flat("kernel_run_counter")
    runs.index_add_(0, table["kernel_run_counter"], torch.ones_like(table["num_slots"]))
    active = table.scalars("verify_num_valid").clamp_(min=0)
    active = torch.minimum(active, table["verify_capacity"]) * (table.scalars("enable") != 0)
    table.flat("slot_run_counter").index_add_(0, table["slot_run_counter"], active)

    launch, index = expand(active)
    slot = table.load("verify_slot_indices", launch, index)
    kept = where_true((slot > 0) & (slot < table.of("num_slots", launch)))
    launch, index = launch.index_select(0, kept), index.index_select(0, kept)
    rows = _violations(table, launch, index, slot.index_select(0, kept))
    append(table, rows)
    return rows


def _violations(
    table: LaunchTable, launch: torch.Tensor, index: torch.Tensor, slot: torch.Tensor
) -> Rows:
    """The rows of the entries ``index[k]`` of launches ``launch[k]``, whose slots are real."""
    stored = load_slots(table, launch, slot)
    chain = _expected_chain(table, launch, index, stored)
    checked = table.of("check_verify_expected_token", launch) != 0
    token = table.load("verify_expected_tokens", launch, index).masked_fill_(~checked, -1)
    position = table.load("verify_expected_positions", launch, index)
    real_kv_hash = real_kv_hashes(table, launch, slot)

    bits = (stored.prev_hash != chain) * int(FailReason.VERIFY_CHAIN_HASH_MISMATCH)
    bits += (stored.position != position) * int(FailReason.VERIFY_POSITION_MISMATCH)
    bits += (stored.real_kv_hash != real_kv_hash) * int(FailReason.VERIFY_REAL_KV_HASH_MISMATCH)
    wrong_token = (token != -1) & (stored.token != token)
    bits += wrong_token * int(FailReason.VERIFY_TOKEN_MISMATCH)

    bad = where_true(bits)
    kind = table.of("kernel_kind", launch)
    columns = (kind, slot, stored.position, stored.token, token, stored.prev_hash, chain, bits)
    values = torch.stack(columns, dim=1).index_select(0, bad)
    return Rows(launch=launch.index_select(0, bad), values=values)


def _expected_chain(
    table: LaunchTable, launch: torch.Tensor, index: torch.Tensor, stored: Slots
) -> torch.Tensor:
    """The prev_hash that each slot should store; its own where it is not checked."""
    previous = table.load("verify_prev_slot_indices", launch, index)
    chain = torch.where(previous < 0, CHAIN_HEAD, stored.prev_hash)
    linked = where_true((previous > 0) & (previous < table.of("num_slots", launch)))
    slots = load_slots(table, launch.index_select(0, linked), previous.index_select(0, linked))
    return chain.scatter_(0, linked, slots.links())
