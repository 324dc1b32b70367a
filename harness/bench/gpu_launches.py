"""The launches that the GPU benchmark times: their shapes, and random data for them on a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from kv_canary_fuzz.reference import (
    RealKvHashMode,
    RealKvSource,
    VerifyLaunch,
    VerifyOrWriteContext,
    VerifyPlan,
    WriteLaunch,
    WritePlan,
    consts,
)

DEVICE = "cuda"
RING_CAPACITY = 64
TOKEN_BOUND = 1 << 17

# What an entry moves beside real KV, in bytes. Write: token, position, slot, and the stamp.
# Verify: four columns of the plan, and the slot's own fields.
ENTRY_BYTES = 24 + 32
VERIFY_ENTRY_BYTES = 32 + 32
REQUEST_BYTES = 16
SECTOR_BYTES = 64
"""The least that device memory gives for a read."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """One launch of the table. ``at_most_us`` is what ours may take, in microseconds."""

    kind: Literal["write", "verify"]
    requests: int
    tokens: int
    sources: int = 0
    token_bytes: int = 0
    mode: RealKvHashMode = RealKvHashMode.ALL
    at_most_us: float

    @property
    def entries(self) -> int:
        return self.requests * self.tokens

    @property
    def folded_bytes(self) -> int:
        """Bytes of real KV that device memory gives for one entry."""
        partial = self.mode is RealKvHashMode.PARTIAL
        return self.sources * (SECTOR_BYTES if partial else self.token_bytes)

    @property
    def moved_bytes(self) -> int:
        """Bytes that the launch moves at least."""
        own = ENTRY_BYTES if self.kind == "write" else VERIFY_ENTRY_BYTES
        return self.entries * (self.folded_bytes + own) + self.requests * REQUEST_BYTES

    @property
    def chain_tokens(self) -> int:
        """The longest chain that the launch mixes one token after the other."""
        return self.tokens if self.kind == "write" else 1

    def __str__(self) -> str:
        entries = f"{self.requests:,} x {self.tokens:,}" if self.kind == "write" else ""
        folded = f"{self.sources} x {self.token_bytes} B, {self.mode.name}"
        return f"{self.kind}, {entries or f'{self.entries:,}'}, " + (
            folded if self.sources else "no sources"
        )


def _write(requests: int, tokens: int, sources: int, width: int, at_most_us: float) -> Shape:
    return Shape(
        kind="write",
        requests=requests,
        tokens=tokens,
        sources=sources,
        token_bytes=width,
        at_most_us=at_most_us,
    )


def _verify(
    entries: int,
    sources: int,
    width: int,
    at_most_us: float,
    mode: RealKvHashMode = RealKvHashMode.ALL,
) -> Shape:
    return Shape(
        kind="verify",
        requests=entries // 1024,
        tokens=1024,
        sources=sources,
        token_bytes=width,
        mode=mode,
        at_most_us=at_most_us,
    )


SHAPES = (
    _write(8, 4096, 4, 128, 370),
    _write(8, 4096, 1, 1024, 400),
    _write(1, 32768, 4, 128, 2900),
    _write(8, 4096, 0, 0, 360),
    _write(64, 512, 4, 128, 60),
    _write(256, 1, 4, 128, 11.5),
    _write(1 << 20, 1, 4, 128, 220),
    _verify(1 << 17, 4, 128, 28),
    _verify(1 << 20, 4, 128, 170),
    _verify(1 << 20, 1, 1152, 340),
    _verify(1 << 20, 2, 2048, 90, RealKvHashMode.PARTIAL),
    _verify(1 << 20, 0, 0, 31),
)
"""The launches that the project has promised times for, on one H200."""


def write_launch(shape: Shape, *, shuffled: bool = False) -> WriteLaunch:
    """A launch that stamps every entry of the shape, with random tokens and real KV.

    Slots follow each other as entries do, or lie anywhere if ``shuffled``.
    """
    entries = torch.arange(shape.entries, device=DEVICE)
    slots = torch.randperm(shape.entries, device=DEVICE) if shuffled else entries
    plan = WritePlan.allocate(write_req_capacity=shape.requests, device=DEVICE)
    plan.write_offsets.copy_(torch.arange(shape.requests + 1, device=DEVICE) * shape.tokens)
    plan.write_seed_slot_indices.fill_(-1)
    plan.write_num_valid_reqs.fill_(shape.requests)
    return WriteLaunch(
        context=_context(shape),
        plan=plan,
        input_ids=torch.randint(TOKEN_BOUND, (shape.entries,), device=DEVICE),
        positions=entries % shape.tokens,
        out_cache_loc=slots + 1,
        enable_write_input_assert=False,
        expected_input_tokens=None,
        expected_input_positions=None,
    )


def verify_launch(written: WriteLaunch, shape: Shape) -> VerifyLaunch:
    """The launch that checks every entry that ``written`` has stamped."""
    plan = VerifyPlan.allocate(verify_capacity=shape.entries, device=DEVICE)
    plan.verify_slot_indices.copy_(written.out_cache_loc)
    plan.verify_expected_tokens.copy_(written.input_ids)
    plan.verify_expected_positions.copy_(written.positions)
    plan.verify_prev_slot_indices.copy_(written.out_cache_loc.roll(1))
    plan.verify_prev_slot_indices[:: shape.tokens] = -1
    plan.verify_num_valid.fill_(shape.entries)
    return VerifyLaunch(context=written.context, plan=plan, check_verify_expected_token=True)


def _context(shape: Shape) -> VerifyOrWriteContext:
    slots = shape.entries + 1
    return VerifyOrWriteContext(
        canary_buf=torch.zeros((slots, consts.CANARY_SLOT_BYTES), dtype=torch.uint8, device=DEVICE),
        kernel_kind=0,
        violation_ring=torch.zeros(
            (RING_CAPACITY, consts.VIOLATION_FIELDS), dtype=torch.int64, device=DEVICE
        ),
        violation_write_index=torch.zeros(1, dtype=torch.int32, device=DEVICE),
        slot_run_counter=torch.zeros(1, dtype=torch.int64, device=DEVICE),
        kernel_run_counter=torch.zeros(1, dtype=torch.int64, device=DEVICE),
        real_kv_sources=tuple(_source(slots, shape.token_bytes) for _ in range(shape.sources)),
        real_kv_hash_mode=shape.mode,
        enable_chain_position_assert=torch.zeros(1, dtype=torch.int32, device=DEVICE),
    )


def _source(slots: int, width: int) -> RealKvSource:
    words = torch.empty((slots, width // 8), dtype=torch.int64, device=DEVICE).random_()
    return RealKvSource(
        tensor=words.view(torch.uint8), page_size=1, num_bytes_per_token=width, read_bytes=width
    )
