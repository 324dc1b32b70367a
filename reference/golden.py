"""Golden vectors: launches with an after-state computed elsewhere (contract, section 10)."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from .building import (
    Row,
    build_context,
    build_source,
    build_verify_launch,
    build_write_launch,
)
from .types import RealKvSource, VerifyLaunch, VerifyOrWriteContext, WriteLaunch

GOLDEN = Path(__file__).parent / "sglang-0.5.23.json.gz"
"""The committed vectors: 160 launches, computed by the torch reference of sglang 0.5.23."""


@dataclass(frozen=True)
class CanaryState:
    """Everything that a launch may change, as plain values."""

    canary_buf: bytes
    violation_ring: tuple[Row, ...]
    violation_write_index: int
    slot_run_counter: int
    kernel_run_counter: int

    @classmethod
    def of(cls, context: VerifyOrWriteContext) -> CanaryState:
        """The state that the context's tensors hold now."""
        return cls(
            canary_buf=context.canary_buf.cpu().numpy().tobytes(),
            violation_ring=tuple(tuple(row) for row in context.violation_ring.tolist()),
            violation_write_index=int(context.violation_write_index.item()),
            slot_run_counter=int(context.slot_run_counter.item()),
            kernel_run_counter=int(context.kernel_run_counter.item()),
        )


@dataclass(frozen=True)
class GoldenLaunch:
    """One launch of the file: ``record`` holds its fields as the file names them."""

    index: int
    record: dict[str, Any]

    @property
    def kernel(self) -> str:
        """``write`` or ``verify``."""
        return str(self.record["kernel"])

    @property
    def before(self) -> CanaryState:
        """The state that `build` starts from."""
        return _state(self.record["before"])

    @property
    def after(self) -> CanaryState:
        """The state that the launch must leave, the ring up to the rule of section 6."""
        return _state(self.record["after"])

    def build(self, device: torch.device | str = "cpu") -> WriteLaunch | VerifyLaunch:
        """The launch over fresh tensors that hold the state before it."""
        make = _write_launch if self.kernel == "write" else _verify_launch
        return make(self.record, torch.device(device))

    def disagreements(
        self, context: VerifyOrWriteContext, produced: Sequence[Row]
    ) -> tuple[str, ...]:
        """The parts of ``context``, after the launch, that are not as the vector says.

        ``produced`` is every row that the launch made, also those that found no room; it decides
        which rows may stand in a ring that could not hold them all.
        """
        found, right, before = CanaryState.of(context), self.after, self.before
        names = ("canary_buf", "violation_write_index", "slot_run_counter", "kernel_run_counter")
        wrong = [name for name in names if getattr(found, name) != getattr(right, name)]
        changed = [
            place
            for place, (old, new) in enumerate(
                zip(before.violation_ring, right.violation_ring, strict=True)
            )
            if old != new
        ]
        stored = Counter(found.violation_ring[place] for place in changed)
        kept = set(range(len(before.violation_ring))) - set(changed)
        untouched = all(found.violation_ring[k] == before.violation_ring[k] for k in kept)
        if not (untouched and stored <= Counter(produced)):
            wrong.append("violation_ring")
        return tuple(wrong)


def read_golden(path: Path | str) -> list[GoldenLaunch]:
    """The launches of a gzipped JSON file of golden vectors."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        document = json.load(file)
    return [GoldenLaunch(index, record) for index, record in enumerate(document["cases"])]


def _state(record: dict[str, Any]) -> CanaryState:
    return CanaryState(
        canary_buf=bytes.fromhex(record["canary_buf"]),
        violation_ring=tuple(tuple(row) for row in record["violation_ring"]),
        violation_write_index=record["violation_write_index"],
        slot_run_counter=record["slot_run_counter"],
        kernel_run_counter=record["kernel_run_counter"],
    )


def _write_launch(record: dict[str, Any], device: torch.device) -> WriteLaunch:
    checked = record["enable_write_input_assert"]
    return build_write_launch(
        _context(record, device),
        write_offsets=record["write_offsets"],
        write_seed_slot_indices=record["write_seed_slot_indices"],
        write_num_valid_reqs=record["write_num_valid_reqs"],
        input_ids=record["input_ids"],
        positions=record["positions"],
        out_cache_loc=record["out_cache_loc"],
        expected_input_tokens=record["expected_input_tokens"] if checked else None,
        expected_input_positions=record["expected_input_positions"] if checked else None,
    )


def _verify_launch(record: dict[str, Any], device: torch.device) -> VerifyLaunch:
    launch = build_verify_launch(
        _context(record, device),
        verify_slot_indices=record["verify_slot_indices"],
        verify_expected_tokens=record["verify_expected_tokens"],
        verify_expected_positions=record["verify_expected_positions"],
        verify_prev_slot_indices=record["verify_prev_slot_indices"],
        verify_num_valid=record["verify_num_valid"],
        enable=record["enable"],
    )
    return replace(launch, check_verify_expected_token=record["check_verify_expected_token"])


def _context(record: dict[str, Any], device: torch.device) -> VerifyOrWriteContext:
    before = _state(record["before"])
    return build_context(
        num_slots=record["num_slots"],
        slot_stride_bytes=record["slot_stride_bytes"],
        kernel_kind=record["kernel_kind"],
        real_kv_sources=[_source(source, device) for source in record["real_kv_sources"]],
        real_kv_hash_mode=record["real_kv_hash_mode"],
        enable_chain_position_assert=record["enable_chain_position_assert"],
        device=device,
        **vars(before),
    )


def _source(record: dict[str, Any], device: torch.device) -> RealKvSource:
    return build_source(
        bytes.fromhex(record["data"]),
        rows=record["rows"],
        page_size=record["page_size"],
        num_bytes_per_token=record["num_bytes_per_token"],
        read_bytes=record["read_bytes"],
        device=device,
    )
