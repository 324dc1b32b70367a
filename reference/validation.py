"""Launches that are refused: the kv-canary contract, section 7, for kernels and reference alike.

Nothing here reads or writes an element of a tensor, so a refused launch has changed nothing. It
runs before every launch of a campaign: attribute reads only, no torch operations.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from . import consts
from .contract import DOCUMENTED, Contract
from .types import RealKvSource, VerifyLaunch, VerifyOrWriteContext, WriteLaunch

_CONTEXT_NAMES = (
    "canary_buf",
    "violation_ring",
    "violation_write_index",
    "slot_run_counter",
    "kernel_run_counter",
    "enable_chain_position_assert",
)
_WRITE_NAMES = (
    *_CONTEXT_NAMES,
    "plan.write_offsets",
    "plan.write_seed_slot_indices",
    "plan.write_num_valid_reqs",
    "input_ids",
    "positions",
    "out_cache_loc",
)
_VERIFY_NAMES = (
    *_CONTEXT_NAMES,
    "plan.verify_slot_indices",
    "plan.verify_expected_tokens",
    "plan.verify_expected_positions",
    "plan.verify_prev_slot_indices",
    "plan.verify_num_valid",
    "plan.enable",
)
_EXPECTED_NAMES = ("expected_input_tokens", "expected_input_positions")

_ONE = (1,)
_HASH_MODES = (0, 1, 2)
_SOURCE_ALIGNMENT = 16


def check_write(
    launch: WriteLaunch, *, max_sources: int | None = None, contract: Contract = DOCUMENTED
) -> None:
    """Raise the ValueError of section 7 that the launch deserves, if any.

    ``max_sources`` is the compiled bound on sources; None is the contract's.
    """
    context, plan = launch.context, launch.plan
    _check_source_count(context.real_kv_sources, max_sources)
    tensors = (
        *_context_tensors(context),
        plan.write_offsets,
        plan.write_seed_slot_indices,
        plan.write_num_valid_reqs,
        launch.input_ids,
        launch.positions,
        launch.out_cache_loc,
    )
    expected = (launch.expected_input_tokens, launch.expected_input_positions)
    _check_contiguous(_WRITE_NAMES, tensors)
    for name, tensor in zip(_EXPECTED_NAMES, expected, strict=True):
        if tensor is not None and not tensor.is_contiguous():
            raise _refusal(name, "must be contiguous")
    _check_source_layouts(context.real_kv_sources, contract)
    _check_expected(launch.enable_write_input_assert, expected)

    _check_context(context)
    device = context.canary_buf.device
    capacity = _length(_WRITE_NAMES[7], tensors[7])
    tokens = _length(_WRITE_NAMES[9], tensors[9])
    lengths = (capacity + 1, capacity, 1, tokens, tokens, tokens)
    for name, tensor, length in zip(_WRITE_NAMES[6:], tensors[6:], lengths, strict=True):
        dtype = torch.int32 if name == "plan.write_num_valid_reqs" else torch.int64
        _check_vector(name, tensor, dtype, (length,), device)
    for name, tensor in zip(_EXPECTED_NAMES, expected, strict=True):
        if tensor is not None:
            _check_vector(name, tensor, torch.int64, (tokens,), device)
    _check_sources(context)


def check_verify(
    launch: VerifyLaunch, *, max_sources: int | None = None, contract: Contract = DOCUMENTED
) -> None:
    """Raise the ValueError of section 7 that the launch deserves, if any.

    ``max_sources`` is the compiled bound on sources; None is the contract's.
    """
    context, plan = launch.context, launch.plan
    _check_source_count(context.real_kv_sources, max_sources)
    tensors = (
        *_context_tensors(context),
        plan.verify_slot_indices,
        plan.verify_expected_tokens,
        plan.verify_expected_positions,
        plan.verify_prev_slot_indices,
        plan.verify_num_valid,
        plan.enable,
    )
    _check_contiguous(_VERIFY_NAMES, tensors)
    _check_source_layouts(context.real_kv_sources, contract)

    _check_context(context)
    device = context.canary_buf.device
    capacity = _length(_VERIFY_NAMES[6], tensors[6])
    for name, tensor in zip(_VERIFY_NAMES[6:10], tensors[6:10], strict=True):
        _check_vector(name, tensor, torch.int64, (capacity,), device)
    for name, tensor in zip(_VERIFY_NAMES[10:], tensors[10:], strict=True):
        _check_vector(name, tensor, torch.int32, _ONE, device)
    _check_sources(context)


def _context_tensors(context: VerifyOrWriteContext) -> tuple[torch.Tensor, ...]:
    return (
        context.canary_buf,
        context.violation_ring,
        context.violation_write_index,
        context.slot_run_counter,
        context.kernel_run_counter,
        context.enable_chain_position_assert,
    )


def _check_source_count(sources: Sequence[RealKvSource], max_sources: int | None) -> None:
    bound = consts.MAX_REAL_KV_SOURCES if max_sources is None else max_sources
    if len(sources) > bound:
        supported = f"at most {bound} RealKvSource entries supported by the CUDA ABI"
        raise ValueError(f"kv-canary: {supported}, got {len(sources)}")


def _check_contiguous(names: Sequence[str], tensors: Sequence[torch.Tensor]) -> None:
    for place, tensor in enumerate(tensors):
        if not tensor.is_contiguous():
            raise _refusal(names[place], "must be contiguous")


def _check_source_layouts(sources: Sequence[RealKvSource], contract: Contract) -> None:
    if contract.strided_rows:
        for index, source in enumerate(sources):
            _check_places(index, source, contract)
            _check_rank(index, source)
        return
    for index, source in enumerate(sources):
        _check_places(index, source, contract)
    for index, source in enumerate(sources):
        _check_rank(index, source)


def _check_places(index: int, source: RealKvSource, contract: Contract) -> None:
    tensor = source.tensor
    fault = contract.source_fault(tensor.stride(), tensor.is_contiguous())
    if fault is not None:
        raise _refusal(_source_name(index), fault)


def _check_rank(index: int, source: RealKvSource) -> None:
    rank = source.tensor.dim()
    if rank != 2:
        raise _refusal(f"{_source_name(index)} (viewed as uint8)", f"must be 2-D, got {rank}-D")


def _check_expected(
    enabled: bool, expected: tuple[torch.Tensor | None, torch.Tensor | None]
) -> None:
    tokens, positions = expected
    if enabled:
        if tokens is None or positions is None:
            raise _refusal(
                "expected input tensors", "are required when enable_write_input_assert=True"
            )
    elif tokens is not None or positions is not None:
        raise _refusal(
            "expected input tensors", "must be None when enable_write_input_assert=False"
        )


def _check_context(context: VerifyOrWriteContext) -> None:
    buf, ring = context.canary_buf, context.violation_ring
    device = buf.device
    if device.type == "meta":
        raise _refusal("canary_buf", "must have memory, got device meta")
    _check_matrix("canary_buf", buf, torch.uint8, None, device)
    stride = buf.size(1)
    if stride < consts.CANARY_SLOT_BYTES or stride % 8:
        raise _refusal(
            "canary_buf", f"must have a slot stride of 32 or more, a multiple of 8, got {stride}"
        )
    _check_matrix("violation_ring", ring, torch.int64, consts.VIOLATION_FIELDS, device)
    _check_vector("violation_write_index", context.violation_write_index, torch.int32, _ONE, device)
    _check_vector("slot_run_counter", context.slot_run_counter, torch.int64, _ONE, device)
    _check_vector("kernel_run_counter", context.kernel_run_counter, torch.int64, _ONE, device)
    flag = context.enable_chain_position_assert
    _check_vector("enable_chain_position_assert", flag, torch.int32, _ONE, device)


def _check_matrix(
    name: str, tensor: torch.Tensor, dtype: torch.dtype, columns: int | None, device: torch.device
) -> None:
    if tensor.dtype is not dtype:
        raise _refusal(name, f"must be {dtype}, got {tensor.dtype}")
    if tensor.dim() != 2 or (columns is not None and tensor.size(1) != columns):
        shape = f"[n, {'m' if columns is None else columns}]"
        raise _refusal(name, f"must have shape {shape}, got {list(tensor.shape)}")
    if tensor.device != device:
        raise _refusal(name, f"must be on the device of canary_buf, got {tensor.device}")
    if tensor.data_ptr() % 8:
        raise _misaligned(name, tensor, 8)


def _length(name: str, tensor: torch.Tensor) -> int:
    if tensor.dim() != 1:
        raise _refusal(name, f"must have shape [n], got {list(tensor.shape)}")
    return tensor.shape[0]


def _check_vector(
    name: str,
    tensor: torch.Tensor,
    dtype: torch.dtype,
    shape: tuple[int],
    device: torch.device,
) -> None:
    if tensor.dtype is not dtype:
        raise _refusal(name, f"must be {dtype}, got {tensor.dtype}")
    if tensor.shape != shape:
        raise _refusal(name, f"must have shape {list(shape)}, got {list(tensor.shape)}")
    if tensor.device != device:
        raise _refusal(name, f"must be on the device of canary_buf, got {tensor.device}")
    alignment = dtype.itemsize
    if tensor.data_ptr() % alignment:
        raise _misaligned(name, tensor, alignment)


def _check_sources(context: VerifyOrWriteContext) -> None:
    buf = context.canary_buf
    device, num_slots = buf.device, buf.size(0)
    for index, source in enumerate(context.real_kv_sources):
        tensor = source.tensor
        if tensor.device != device:
            found = f"must be on the device of canary_buf, got {tensor.device}"
            raise _refusal(_source_name(index), found)
        if tensor.data_ptr() % _SOURCE_ALIGNMENT:
            raise _misaligned(_source_name(index), tensor, _SOURCE_ALIGNMENT)
        rows = tensor.size(0)
        if rows * source.page_size < num_slots:
            found = f"{rows} rows of {source.page_size}"
            raise _refusal(_source_name(index), f"must cover {num_slots} slots, got {found}")
    mode = context.real_kv_hash_mode
    if mode not in _HASH_MODES:
        raise _refusal("real_kv_hash_mode", f"must be 0, 1 or 2, got {mode}")


def _source_name(index: int) -> str:
    return f"real_kv_sources[{index}].tensor"


def _misaligned(name: str, tensor: torch.Tensor, alignment: int) -> ValueError:
    found = tensor.data_ptr() % alignment
    return _refusal(name, f"must start at a multiple of {alignment} bytes, got {found} past one")


def _refusal(name: str, fault: str) -> ValueError:
    return ValueError(f"kv-canary: {name} {fault}")
