"""Packing a launch as the structures of ``csrc/canary_abi.h``: rows of 64-bit words.

Both builds compare the sizes computed here with those of the structures when they are compiled.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import NamedTuple

import torch

from kv_canary_fuzz.reference import consts
from kv_canary_fuzz.reference.enums import RealKvHashMode
from kv_canary_fuzz.reference.types import (
    RealKvSource,
    VerifyLaunch,
    VerifyOrWriteContext,
    WriteLaunch,
)

KERNELS = (
    "kv_canary_write_folded",
    "kv_canary_write_plain",
    "kv_canary_verify_folded",
    "kv_canary_verify_heads",
    "kv_canary_verify_plain",
)

WARP_LANES = 32

_CANARY_WORDS = 13
_SOURCE_WORDS = 6
_WRITE_WORDS = 12
_VERIFY_WORDS = 8
_WIDE_BYTES = 16


class Packed(NamedTuple):
    """A launch ready for a kernel.

    ``walkers`` are the crews and ``folders`` the warps of each role that could have work at most;
    verify has one role, whose warps count as folders.
    """

    kernel: str
    words: bytes
    walkers: int
    folders: int

    def blocks(self, block_warps: int, max_blocks: int) -> int:
        """The grid: as many blocks as could have work, from 1 to ``max_blocks``.

        A crew gets a block of its own, since warps that share a multiprocessor slow each other.
        """
        folding_warps = (block_warps + 1) // 2 if self.walkers else block_warps
        wanted = max(self.walkers, -(-self.folders // folding_warps))
        return max(1, min(wanted, max_blocks))


def source_bound(max_sources: int | None) -> int:
    """The bound on sources to compile: the contract's where none is asked for."""
    return consts.MAX_REAL_KV_SOURCES if max_sources is None else max_sources


def definitions(max_sources: int, block_threads: int) -> tuple[str, ...]:
    """The compiler options that a build of the kernel source needs."""
    shared = _CANARY_WORDS + _SOURCE_WORDS * max_sources
    return (
        f"-DKV_MAX_SOURCES={max_sources}",
        f"-DKV_MAX_BLOCK_THREADS={block_threads}",
        f"-DKV_WRITE_LAUNCH_BYTES={8 * (shared + _WRITE_WORDS)}",
        f"-DKV_VERIFY_LAUNCH_BYTES={8 * (shared + _VERIFY_WORDS)}",
    )


def pack_write(launch: WriteLaunch, max_sources: int) -> Packed:
    """A validated write launch for a build with this bound on sources."""
    context, plan = launch.context, launch.plan
    sources, shift = _folded_sources(context)
    capacity = plan.write_seed_slot_indices.shape[0]
    tokens = launch.input_ids.shape[0]
    expected_tokens, expected_positions = (
        launch.expected_input_tokens,
        launch.expected_input_positions,
    )
    words = _words(max_sources, _WRITE_WORDS).pack(
        *_canary_words(context, sources, shift, max_sources),
        context.enable_chain_position_assert.data_ptr(),
        plan.write_offsets.data_ptr(),
        plan.write_seed_slot_indices.data_ptr(),
        plan.write_num_valid_reqs.data_ptr(),
        capacity,
        launch.input_ids.data_ptr(),
        launch.positions.data_ptr(),
        launch.out_cache_loc.data_ptr(),
        tokens,
        1 if launch.enable_write_input_assert else 0,
        0 if expected_tokens is None else expected_tokens.data_ptr(),
        0 if expected_positions is None else expected_positions.data_ptr(),
    )
    if not sources:
        return Packed("kv_canary_write_plain", words, capacity, 0)
    return Packed("kv_canary_write_folded", words, capacity, _fold_warps(tokens, shift))


def pack_verify(launch: VerifyLaunch, max_sources: int) -> Packed:
    """A validated verify launch for a build with this bound on sources."""
    context, plan = launch.context, launch.plan
    sources, shift = _folded_sources(context)
    capacity = plan.verify_slot_indices.shape[0]
    words = _words(max_sources, _VERIFY_WORDS).pack(
        *_canary_words(context, sources, shift, max_sources),
        plan.verify_slot_indices.data_ptr(),
        plan.verify_expected_tokens.data_ptr(),
        plan.verify_expected_positions.data_ptr(),
        plan.verify_prev_slot_indices.data_ptr(),
        plan.verify_num_valid.data_ptr(),
        plan.enable.data_ptr(),
        capacity,
        1 if launch.check_verify_expected_token else 0,
    )
    if not sources:
        return Packed("kv_canary_verify_plain", words, 0, _fold_warps(capacity, 0))
    if _short_folds(sources):
        return Packed("kv_canary_verify_heads", words, 0, _fold_warps(capacity, 0))
    return Packed("kv_canary_verify_folded", words, 0, _fold_warps(capacity, shift))


@lru_cache(maxsize=64)
def _words(max_sources: int, own_words: int) -> Struct:
    return Struct(f"={_CANARY_WORDS + _SOURCE_WORDS * max_sources + own_words}q")


def _fold_warps(slots: int, source_shift: int) -> int:
    return -(-(slots << source_shift) // WARP_LANES)


def _folded_sources(context: VerifyOrWriteContext) -> tuple[list[tuple[int, ...]], int]:
    """The words of every source that is folded, and log2 of their number, rounded up."""
    mode = context.real_kv_hash_mode
    if mode == RealKvHashMode.NONE or not context.real_kv_sources:
        return [], 0
    partial = mode == RealKvHashMode.PARTIAL
    sources = [_source_words(source, partial) for source in context.real_kv_sources]
    return sources, (len(sources) - 1).bit_length()


def _source_words(source: RealKvSource, partial: bool) -> tuple[int, ...]:
    tensor, page_size = source.tensor, source.page_size
    return (
        tensor.data_ptr(),
        tensor.stride(0) * tensor.element_size(),
        page_size,
        page_size.bit_length() - 1 if page_size & (page_size - 1) == 0 else -1,
        source.num_bytes_per_token,
        consts.PARTIAL_FOLD_BYTES if partial else source.read_bytes,
    )


def _short_folds(sources: list[tuple[int, ...]]) -> bool:
    return all(source[-1] == consts.PARTIAL_FOLD_BYTES for source in sources)


def _canary_words(
    context: VerifyOrWriteContext,
    sources: list[tuple[int, ...]],
    source_shift: int,
    max_sources: int,
) -> list[int]:
    canary_buf: torch.Tensor = context.canary_buf
    base = canary_buf.data_ptr()
    num_slots, stride = canary_buf.shape
    words = [
        base,
        stride,
        num_slots,
        1 if (base | stride) % _WIDE_BYTES == 0 else 0,
        context.violation_ring.data_ptr(),
        context.violation_ring.shape[0],
        context.violation_write_index.data_ptr(),
        context.slot_run_counter.data_ptr(),
        context.kernel_run_counter.data_ptr(),
        int(context.kernel_kind),
        len(sources),
        source_shift,
        1 if _short_folds(sources) else 0,
    ]
    for source in sources:
        words += source
    words += [0] * (_SOURCE_WORDS * (max_sources - len(sources)))
    return words
