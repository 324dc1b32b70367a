"""What a launch is given: the dataclasses of the kv-canary contract, section 1.

Shapes and dtypes are those of the contract, section 2. The two launch values bundle the
arguments of a launcher, so that a launch can be validated, batched or repeated as one thing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .enums import CanaryLaunchTag, RealKvHashMode


@dataclass(frozen=True, kw_only=True)
class RealKvSource:
    """A paged KV tensor whose bytes go into the real-KV hash.

    Slot s lives in row ``s // page_size``, from column ``(s % page_size) * num_bytes_per_token``
    of the tensor viewed as uint8. Raises ValueError where the contract's section 7 says so.
    """

    tensor: torch.Tensor
    page_size: int
    num_bytes_per_token: int
    read_bytes: int


@dataclass(frozen=True, kw_only=True)
class VerifyOrWriteContext:
    """The canary state that a launch reads and changes, and how real KV is hashed."""

    canary_buf: torch.Tensor
    kernel_kind: CanaryLaunchTag | int
    violation_ring: torch.Tensor
    violation_write_index: torch.Tensor
    slot_run_counter: torch.Tensor
    kernel_run_counter: torch.Tensor
    real_kv_sources: Sequence[RealKvSource]
    real_kv_hash_mode: RealKvHashMode | int
    enable_chain_position_assert: torch.Tensor


CanaryWriteContext = VerifyOrWriteContext


@dataclass(frozen=True, kw_only=True)
class WritePlan:
    """Which flat entries each request writes, and which slot its chain continues."""

    write_offsets: torch.Tensor
    write_seed_slot_indices: torch.Tensor
    write_num_valid_reqs: torch.Tensor

    @classmethod
    def allocate(cls, *, write_req_capacity: int, device: torch.device | str) -> WritePlan:
        """A zeroed plan. Raises ValueError where the capacity is not positive."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class VerifyPlan:
    """Which slots are checked, and against what."""

    verify_slot_indices: torch.Tensor
    verify_expected_tokens: torch.Tensor
    verify_expected_positions: torch.Tensor
    verify_prev_slot_indices: torch.Tensor
    verify_num_valid: torch.Tensor
    enable: torch.Tensor

    @classmethod
    def allocate(cls, *, verify_capacity: int, device: torch.device | str) -> VerifyPlan:
        """A zeroed plan. Raises ValueError where the capacity is not positive."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class WriteLaunch:
    """The arguments of a write launcher."""

    context: VerifyOrWriteContext
    plan: WritePlan
    input_ids: torch.Tensor
    positions: torch.Tensor
    out_cache_loc: torch.Tensor
    enable_write_input_assert: bool
    expected_input_tokens: torch.Tensor | None
    expected_input_positions: torch.Tensor | None

    def arguments(self) -> dict[str, Any]:
        """The keyword arguments of a write launcher."""
        return dict(vars(self))


@dataclass(frozen=True, kw_only=True)
class VerifyLaunch:
    """The arguments of a verify launcher."""

    context: VerifyOrWriteContext
    plan: VerifyPlan
    check_verify_expected_token: bool

    def arguments(self) -> dict[str, Any]:
        """The keyword arguments of a verify launcher."""
        return dict(vars(self))
