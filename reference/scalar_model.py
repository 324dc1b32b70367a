"""The kv-canary contract a second time, entry by entry in plain Python integers.

It shares types, constants and refusals with the torch reference and nothing else, so that a
mismatch between three implementations says which one stands alone. Clear over fast. The module is
itself a target: its launchers have the contract's names and arguments.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import torch

from . import consts
from .checked import CheckedLaunchers
from .contract import DOCUMENTED, Contract
from .enums import FailReason, RealKvHashMode
from .relocation import run_on_host
from .scalar_hashing import MASK, fold_sources, mix3, splitmix64
from .types import RealKvSource, VerifyLaunch, VerifyOrWriteContext, WriteLaunch

_HEAD = splitmix64(consts.CANARY_CHAIN_ANCHOR)


class Slot(NamedTuple):
    """The stored fields of a canary slot: signed, signed, unsigned, unsigned."""

    token: int
    position: int
    prev_hash: int
    real_kv_hash: int

    def link(self) -> int:
        """The prev_hash that this slot's successor stores."""
        return mix3(self.prev_hash, self.token, self.position)


def scalar_model(contract: Contract) -> CheckedLaunchers:
    """The launchers of this model under a revision of the contract."""
    return CheckedLaunchers(
        contract=contract,
        run_write=lambda launch: run_on_host(launch, _write),
        run_verify=lambda launch: run_on_host(launch, _verify),
    )


_documented = scalar_model(DOCUMENTED)
launch_canary_write_kernel = _documented.launch_canary_write_kernel
launch_canary_verify_kernel = _documented.launch_canary_verify_kernel


def _write(launch: WriteLaunch) -> None:
    context, plan = launch.context, launch.plan
    _count(context.kernel_run_counter, 1)
    num_slots = context.canary_buf.shape[0]
    seeds = plan.write_seed_slot_indices.tolist()
    active = _clamp(int(plan.write_num_valid_reqs.item()), len(seeds))
    heads = [_read(context, seed) if 0 <= seed < num_slots else None for seed in seeds[:active]]
    for head, entries in zip(heads, _entries(launch), strict=False):
        running = _HEAD if head is None else head.link()
        previous = None if head is None else head.position
        stamped = 0
        for slot, token, position, expected in entries:
            if not 0 <= slot < num_slots:
                continue
            _check_input(context, slot, token, position, running, expected)
            if previous is not None and int(context.enable_chain_position_assert.item()):
                _check_step(context, slot, token, position, running, previous)
            _stamp(context, slot, Slot(token, position, running, _real_kv_hash(context, slot)))
            running = mix3(running, token, position)
            previous = None if previous is None else position
            stamped += 1
        _count(context.slot_run_counter, stamped)


Entry = tuple[int, int, int, tuple[int, int] | None]


def _entries(launch: WriteLaunch) -> Iterator[list[Entry]]:
    """Per request: slot, token, position and the expected pair of its entries."""
    offsets = launch.plan.write_offsets.tolist()
    slots, tokens = launch.out_cache_loc.tolist(), launch.input_ids.tolist()
    positions = launch.positions.tolist()
    expected: list[tuple[int, int] | None] = [None] * len(slots)
    wanted, places = launch.expected_input_tokens, launch.expected_input_positions
    if wanted is not None and places is not None:
        expected = list(zip(wanted.tolist(), places.tolist(), strict=True))
    flat = list(zip(slots, tokens, positions, expected, strict=True))
    for start, end in pairwise(offsets):
        yield flat[_clamp(start, len(flat)) : _clamp(end, len(flat))]


def _check_input(
    context: VerifyOrWriteContext,
    slot: int,
    token: int,
    position: int,
    running: int,
    expected: tuple[int, int] | None,
) -> None:
    if expected is None:
        return
    bits = FailReason.WRITE_TOKEN_MISMATCH * (token != expected[0])
    bits |= FailReason.WRITE_POSITION_MISMATCH * (position != expected[1])
    if bits:
        _report(context, slot, position, token, expected[0], running, expected[1], bits)


def _check_step(
    context: VerifyOrWriteContext, slot: int, token: int, position: int, running: int, previous: int
) -> None:
    right = _signed(previous + 1)
    if position != right:
        bits = FailReason.WRITE_POSITION_MISMATCH
        _report(context, slot, position, token, token, running, right, bits)


def _verify(launch: VerifyLaunch) -> None:
    context, plan = launch.context, launch.plan
    _count(context.kernel_run_counter, 1)
    if not int(plan.enable.item()):
        return
    slots = plan.verify_slot_indices.tolist()
    active = _clamp(int(plan.verify_num_valid.item()), len(slots))
    _count(context.slot_run_counter, active)
    entries = zip(
        slots,
        plan.verify_expected_tokens.tolist(),
        plan.verify_expected_positions.tolist(),
        plan.verify_prev_slot_indices.tolist(),
        strict=True,
    )
    for _, (slot, token, position, previous) in zip(range(active), entries, strict=False):
        if 0 < slot < context.canary_buf.shape[0]:
            expected = token if launch.check_verify_expected_token else -1
            _check_slot(context, slot, expected, position, previous)


def _check_slot(
    context: VerifyOrWriteContext, slot: int, token: int, position: int, previous: int
) -> None:
    stored = _read(context, slot)
    chain = stored.prev_hash
    if previous < 0:
        chain = _HEAD
    elif 0 < previous < context.canary_buf.shape[0]:
        chain = _read(context, previous).link()
    real = _real_kv_hash(context, slot)
    bits = FailReason.VERIFY_CHAIN_HASH_MISMATCH * (stored.prev_hash != chain)
    bits |= FailReason.VERIFY_TOKEN_MISMATCH * (token not in (-1, stored.token))
    bits |= FailReason.VERIFY_POSITION_MISMATCH * (stored.position != position)
    bits |= FailReason.VERIFY_REAL_KV_HASH_MISMATCH * (stored.real_kv_hash != real)
    if bits:
        _report(context, slot, stored.position, stored.token, token, stored.prev_hash, chain, bits)


def _read(context: VerifyOrWriteContext, slot: int) -> Slot:
    row = context.canary_buf[slot, : consts.CANARY_SLOT_BYTES]
    return Slot(*struct.unpack("<qqQQ", bytes(row.tolist())))


def _stamp(context: VerifyOrWriteContext, slot: int, stamp: Slot) -> None:
    data = bytearray(struct.pack("<qqQQ", *stamp))
    context.canary_buf[slot, : consts.CANARY_SLOT_BYTES] = torch.frombuffer(data, dtype=torch.uint8)


def _real_kv_hash(context: VerifyOrWriteContext, slot: int) -> int:
    mode = context.real_kv_hash_mode
    if mode == RealKvHashMode.NONE:
        return 0
    return fold_sources(
        _source_bytes(source, slot, mode == RealKvHashMode.PARTIAL)
        for source in context.real_kv_sources
    )


def _source_bytes(source: RealKvSource, slot: int, partial: bool) -> bytes:
    row, place = divmod(slot, source.page_size)
    start = place * source.num_bytes_per_token
    length = consts.PARTIAL_FOLD_BYTES if partial else source.read_bytes
    return bytes(source.tensor[row].view(torch.uint8)[start : start + length].tolist())


def _report(context: VerifyOrWriteContext, *row: int) -> None:
    """Append (kernel_kind, *row) to the ring (section 6)."""
    sequence = int(context.violation_write_index.item())
    context.violation_write_index.fill_((sequence + 1 + 2**31) % 2**32 - 2**31)
    if 0 <= sequence < context.violation_ring.shape[0]:
        values = [_signed(int(value)) for value in (context.kernel_kind, *row)]
        context.violation_ring[sequence] = torch.tensor(values, dtype=torch.int64)


def _count(counter: torch.Tensor, amount: int) -> None:
    counter.fill_(_signed(int(counter.item()) + amount))


def _clamp(count: int, limit: int) -> int:
    return min(max(count, 0), limit)


def _signed(value: int) -> int:
    return (value + 2**63 & MASK) - 2**63
