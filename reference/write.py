"""The write kernel's meaning over a batch of launches (contract, sections 4 and 8)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from .chains import running_hashes
from .enums import FailReason
from .folding import real_kv_hashes
from .hashing import CHAIN_HEAD
from .ragged import expand, places, where_true
from .ring import Rows, append, store_fields
from .slots import load_slots, slot_offsets
from .table import LaunchTable


@dataclass(frozen=True)
class _Requests:
    """The active requests of the batch, launch after launch; tensors are [requests]."""

    launch: torch.Tensor
    first: torch.Tensor
    count: torch.Tensor
    seeded: torch.Tensor
    head: torch.Tensor
    seed_position: torch.Tensor


@dataclass(frozen=True)
class _Entries:
    """The entries that are not skipped, request after request; tensors are [entries].

    ``place`` counts within the request; ``index`` within the launch's inputs.
    """

    request: torch.Tensor
    launch: torch.Tensor
    place: torch.Tensor
    index: torch.Tensor
    slot: torch.Tensor
    token: torch.Tensor
    position: torch.Tensor


def run_write(table: LaunchTable) -> Rows:
    """Run the launches of the table; the rows they produced, stored or not."""
    requests = _active_requests(table)
    entries = _kept_entries(table, requests)
    lengths = torch.bincount(entries.request, minlength=len(requests.launch))
    running = running_hashes(
        requests.head, lengths, entries.request, entries.place, entries.token, entries.position
    )
    real_kv_hash = real_kv_hashes(table, entries.launch, entries.slot)
    rows = _violations(table, requests, entries, running)
    stamps = torch.stack((entries.token, entries.position, running, real_kv_hash), dim=1)
    _stamp(table, entries, stamps)
    launches = len(table["num_slots"])
    stamped = torch.bincount(entries.launch, minlength=launches)
    table.flat("slot_run_counter").index_add_(0, table["slot_run_counter"], stamped)
    table.flat("kernel_run_counter").index_add_(
        0, table["kernel_run_counter"], torch.ones_like(stamped)
    )
    append(table, rows)
    return rows


def _active_requests(table: LaunchTable) -> _Requests:
    active = table.scalars("write_num_valid_reqs").clamp_(min=0)
    launch, request = expand(torch.minimum(active, table["write_req_capacity"]))
    limit = table.of("num_tokens_padded", launch)
    zero = torch.zeros_like(limit)
    first = table.load("write_offsets", launch, request).clamp_(zero, limit)
    end = table.load("write_offsets", launch, request + 1).clamp_(zero, limit)
    seed = table.load("write_seed_slot_indices", launch, request)
    seeded = (seed >= 0) & (seed < table.of("num_slots", launch))
    which = where_true(seeded)
    seeds = load_slots(table, launch.index_select(0, which), seed.index_select(0, which))
    return _Requests(
        launch=launch,
        first=first,
        count=(end - first).clamp_(min=0),
        seeded=seeded,
        head=torch.full_like(first, CHAIN_HEAD).scatter_(0, which, seeds.links()),
        seed_position=zero.scatter_(0, which, seeds.position),
    )


def _kept_entries(table: LaunchTable, requests: _Requests) -> _Entries:
    request, place = expand(requests.count)
    launch = requests.launch.index_select(0, request)
    index = requests.first.index_select(0, request).add_(place)
    slot = table.load("out_cache_loc", launch, index)
    kept = where_true((slot >= 0) & (slot < table.of("num_slots", launch)))
    request, launch = request.index_select(0, kept), launch.index_select(0, kept)
    index, slot = index.index_select(0, kept), slot.index_select(0, kept)
    counts = torch.bincount(request, minlength=len(requests.launch))
    return _Entries(
        request=request,
        launch=launch,
        place=places(request, counts),
        index=index,
        slot=slot,
        token=table.load("input_ids", launch, index),
        position=table.load("positions", launch, index),
    )


def _violations(
    table: LaunchTable, requests: _Requests, entries: _Entries, running: torch.Tensor
) -> Rows:
    """The rows of both write checks: an entry's input check first, then its chain step."""
    launch, request, position = entries.launch, entries.request, entries.position
    expected_token = table.load("expected_input_tokens", launch, entries.index)
    expected_position = table.load("expected_input_positions", launch, entries.index)
    input_bits = (entries.token != expected_token) * int(FailReason.WRITE_TOKEN_MISMATCH)
    input_bits += (position != expected_position) * int(FailReason.WRITE_POSITION_MISMATCH)

    seed_position = requests.seed_position.index_select(0, request)
    following = torch.where(entries.place == 0, seed_position, position.roll(1)).add_(1)
    asserted = table.scalars("enable_chain_position_assert") != 0
    checked = asserted.index_select(0, launch) & requests.seeded.index_select(0, request)
    step_bits = (checked & (position != following)) * int(FailReason.WRITE_POSITION_MISMATCH)

    bits = torch.stack((input_bits, step_bits), dim=1)
    entry, check = bits.nonzero().unbind(1)
    shared = (table.of("kernel_kind", launch), entries.slot, position, entries.token)
    input_row = torch.stack((*shared, expected_token, running, expected_position), dim=1)
    step_row = torch.stack((*shared, entries.token, running, following), dim=1)
    rows = torch.stack((input_row, step_row), dim=1)[entry, check]
    return Rows(
        launch=launch.index_select(0, entry),
        values=torch.cat((rows, bits[entry, check].unsqueeze(1)), dim=1),
    )


def _stamp(table: LaunchTable, entries: _Entries, stamps: torch.Tensor) -> None:
    """Store the stamps [entries, 4]; of several entries for one slot, the last one stays.

    Scattering to repeated places has no order, so the token fields first elect the last entry.
    """
    flat = table.flat("canary_buf")
    offset = slot_offsets(table, entries.launch, entries.slot)
    turn = torch.arange(len(offset), device=offset.device)
    flat.index_fill_(0, offset, -1).scatter_reduce_(0, offset, turn, "amax")
    last = where_true(flat.index_select(0, offset) == turn)
    store_fields(flat, offset.index_select(0, last), stamps.index_select(0, last))
