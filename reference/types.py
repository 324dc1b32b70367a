"""What a launch is given: the dataclasses of the kv-canary contract, section 1.

Shapes and dtypes are those of the contract, section 2. The two launch values bundle the
arguments of a launcher, so that a launch can be validated, batched or repeated as one thing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from . import consts
from .contract import DOCUMENTED, Contract
from .enums import CanaryLaunchTag, RealKvHashMode


@dataclass(frozen=True, kw_only=True)
class RealKvSource:
    """A paged KV tensor whose bytes go into the real-KV hash.

    Slot s lives in row ``s // page_size``, from column ``(s % page_size) * num_bytes_per_token``
    of the tensor viewed as uint8. Raises ValueError where the contract's section 7 says so; a
    tensor that is not 2-D is left to the launch.
    """

    tensor: torch.Tensor
    page_size: int
    num_bytes_per_token: int
    read_bytes: int

    def __post_init__(self) -> None:
        page_size, width, read = self.page_size, self.num_bytes_per_token, self.read_bytes
        if page_size < 1:
            raise _refusal("page_size", f"must be at least 1, got {page_size}")
        if width < 1 or width % 16:
            raise _refusal("num_bytes_per_token", f"must be a positive multiple of 16, got {width}")
        if read < 1 or read % 16 or read > width:
            limit = f"at most num_bytes_per_token={width}"
            raise _refusal("read_bytes", f"must be a positive multiple of 16, {limit}, got {read}")
        tensor = self.tensor
        if tensor.dim() != 2:
            return
        itemsize = tensor.element_size()
        step = tensor.stride(0) * itemsize
        if step < 1 or step % 16:
            raise _refusal("tensor", f"must step a positive multiple of 16 bytes a row, got {step}")
        row_bytes = tensor.size(1) * itemsize
        if row_bytes < page_size * width:
            need = f"{page_size * width} bytes (page_size * num_bytes_per_token)"
            raise _refusal("tensor", f"must have rows of at least {need}, got {row_bytes}")

    @classmethod
    def from_paged(cls, tensor: torch.Tensor, read_bytes: int) -> RealKvSource:
        """The source of a cache ``tensor`` [pages, tokens, ...]: a view of it, never a copy.

        Raises ValueError where the tensor cannot be seen as contiguous rows of bytes, or where the
        source that it would make is refused.
        """
        if tensor.dim() < 2 or not tensor.is_contiguous():
            found = f"shape {tuple(tensor.shape)} with strides {tensor.stride()}"
            raise ValueError(
                f"kv-canary: a paged cache must be contiguous [pages, tokens, ...], got {found}"
            )
        pages, tokens = tensor.shape[:2]
        items = math.prod(tensor.shape[2:])
        try:
            rows = tensor.detach().view(pages, tokens * items).view(torch.uint8)
        except RuntimeError as error:
            raise ValueError(
                f"kv-canary: a paged cache must be viewable as bytes: {error}"
            ) from error
        width = items * tensor.element_size()
        return cls(tensor=rows, page_size=tokens, num_bytes_per_token=width, read_bytes=read_bytes)


def sources_within_abi_limit(sources: Sequence[RealKvSource]) -> bool:
    """Whether a kernel built with the default bound takes that many sources."""
    return len(sources) <= consts.MAX_REAL_KV_SOURCES


def is_valid_kv_source(source: RealKvSource, contract: Contract = DOCUMENTED) -> bool:
    """Whether a launch takes the source's tensor: 2-D as bytes, and as packed as it must be."""
    tensor = source.tensor
    return (
        tensor.dim() == 2 and contract.source_fault(tensor.stride(), tensor.is_contiguous()) is None
    )


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
        capacity = _positive("write_req_capacity", write_req_capacity)
        return cls(
            write_offsets=torch.zeros(capacity + 1, dtype=torch.int64, device=device),
            write_seed_slot_indices=torch.zeros(capacity, dtype=torch.int64, device=device),
            write_num_valid_reqs=torch.zeros(1, dtype=torch.int32, device=device),
        )


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
        """A zeroed plan that is enabled, as upstream's is.

        Raises ValueError where the capacity is not positive.
        """
        capacity = _positive("verify_capacity", verify_capacity)
        return cls(
            verify_slot_indices=torch.zeros(capacity, dtype=torch.int64, device=device),
            verify_expected_tokens=torch.zeros(capacity, dtype=torch.int64, device=device),
            verify_expected_positions=torch.zeros(capacity, dtype=torch.int64, device=device),
            verify_prev_slot_indices=torch.zeros(capacity, dtype=torch.int64, device=device),
            verify_num_valid=torch.zeros(1, dtype=torch.int32, device=device),
            enable=torch.ones(1, dtype=torch.int32, device=device),
        )


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


def _refusal(field: str, fault: str) -> ValueError:
    return ValueError(f"kv-canary: RealKvSource.{field} {fault}")


def _positive(name: str, capacity: int) -> int:
    if capacity < 1:
        raise ValueError(f"kv-canary: {name} must be positive, got {capacity}")
    return capacity
