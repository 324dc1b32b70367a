"""Launches from plain numbers, for tests and examples: every tensor is fresh."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from . import consts
from .types import (
    RealKvSource,
    VerifyLaunch,
    VerifyOrWriteContext,
    VerifyPlan,
    WriteLaunch,
    WritePlan,
)

Row = tuple[int, ...]
Device = torch.device | str


def build_source(
    data: bytes,
    *,
    rows: int,
    page_size: int,
    num_bytes_per_token: int,
    read_bytes: int | None = None,
    device: Device = "cpu",
) -> RealKvSource:
    """A source of ``rows`` equal rows of ``data``; all of a token is read unless said otherwise."""
    return RealKvSource(
        tensor=_bytes(data, rows, device),
        page_size=page_size,
        num_bytes_per_token=num_bytes_per_token,
        read_bytes=num_bytes_per_token if read_bytes is None else read_bytes,
    )


def build_context(
    *,
    num_slots: int = 8,
    slot_stride_bytes: int = consts.CANARY_SLOT_BYTES,
    canary_buf: bytes | None = None,
    kernel_kind: int = 0,
    violation_ring: Sequence[Sequence[int]] = (),
    violation_write_index: int = 0,
    slot_run_counter: int = 0,
    kernel_run_counter: int = 0,
    real_kv_sources: Sequence[RealKvSource] = (),
    real_kv_hash_mode: int = 0,
    enable_chain_position_assert: int = 0,
    device: Device = "cpu",
) -> VerifyOrWriteContext:
    """A context; the canary buffer holds zeros unless its bytes are given."""
    slots = bytes(num_slots * slot_stride_bytes) if canary_buf is None else canary_buf
    ring = [number for row in violation_ring for number in row]
    return VerifyOrWriteContext(
        canary_buf=_bytes(slots, num_slots, device),
        kernel_kind=kernel_kind,
        violation_ring=_int64(ring, device).reshape(-1, consts.VIOLATION_FIELDS),
        violation_write_index=_int32(violation_write_index, device),
        slot_run_counter=_int64([slot_run_counter], device),
        kernel_run_counter=_int64([kernel_run_counter], device),
        real_kv_sources=tuple(real_kv_sources),
        real_kv_hash_mode=real_kv_hash_mode,
        enable_chain_position_assert=_int32(enable_chain_position_assert, device),
    )


def build_write_launch(
    context: VerifyOrWriteContext,
    *,
    write_offsets: Sequence[int],
    write_seed_slot_indices: Sequence[int],
    input_ids: Sequence[int],
    positions: Sequence[int],
    out_cache_loc: Sequence[int],
    write_num_valid_reqs: int | None = None,
    expected_input_tokens: Sequence[int] | None = None,
    expected_input_positions: Sequence[int] | None = None,
) -> WriteLaunch:
    """A write launch; all requests are active unless said otherwise.

    The input assert is on where expected tokens are given.
    """
    device = context.canary_buf.device
    active = len(write_seed_slot_indices) if write_num_valid_reqs is None else write_num_valid_reqs
    tokens, places = expected_input_tokens, expected_input_positions
    return WriteLaunch(
        context=context,
        plan=WritePlan(
            write_offsets=_int64(write_offsets, device),
            write_seed_slot_indices=_int64(write_seed_slot_indices, device),
            write_num_valid_reqs=_int32(active, device),
        ),
        input_ids=_int64(input_ids, device),
        positions=_int64(positions, device),
        out_cache_loc=_int64(out_cache_loc, device),
        enable_write_input_assert=tokens is not None,
        expected_input_tokens=None if tokens is None else _int64(tokens, device),
        expected_input_positions=None if places is None else _int64(places, device),
    )


def build_verify_launch(
    context: VerifyOrWriteContext,
    *,
    verify_slot_indices: Sequence[int],
    verify_expected_positions: Sequence[int],
    verify_prev_slot_indices: Sequence[int],
    verify_expected_tokens: Sequence[int] | None = None,
    verify_num_valid: int | None = None,
    enable: int = 1,
) -> VerifyLaunch:
    """A verify launch; all entries are active unless said otherwise.

    Tokens are checked where expected ones are given.
    """
    device = context.canary_buf.device
    capacity = len(verify_slot_indices)
    tokens = [-1] * capacity if verify_expected_tokens is None else verify_expected_tokens
    return VerifyLaunch(
        context=context,
        plan=VerifyPlan(
            verify_slot_indices=_int64(verify_slot_indices, device),
            verify_expected_tokens=_int64(tokens, device),
            verify_expected_positions=_int64(verify_expected_positions, device),
            verify_prev_slot_indices=_int64(verify_prev_slot_indices, device),
            verify_num_valid=_int32(
                capacity if verify_num_valid is None else verify_num_valid, device
            ),
            enable=_int32(enable, device),
        ),
        check_verify_expected_token=verify_expected_tokens is not None,
    )


def _int64(numbers: Sequence[int], device: Device) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.int64, device=device)


def _int32(number: int, device: Device) -> torch.Tensor:
    return torch.tensor([number], dtype=torch.int32, device=device)


def _bytes(data: bytes, rows: int, device: Device) -> torch.Tensor:
    width = len(data) // max(rows, 1)
    if not data:
        return torch.zeros((rows, width), dtype=torch.uint8, device=device)
    return torch.frombuffer(bytearray(data), dtype=torch.uint8).reshape(rows, width).to(device)
