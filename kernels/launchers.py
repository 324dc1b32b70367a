"""The public launchers: CUDA tensors go to the GPU build, all others to the emulated one."""

from __future__ import annotations

from functools import lru_cache

import torch

from kv_canary_fuzz.reference import consts
from kv_canary_fuzz.reference.types import VerifyOrWriteContext, VerifyPlan, WritePlan

from . import emulated, gpu


def launch_canary_write_kernel(
    *,
    context: VerifyOrWriteContext,
    plan: WritePlan,
    input_ids: torch.Tensor,
    positions: torch.Tensor,
    out_cache_loc: torch.Tensor,
    enable_write_input_assert: bool,
    expected_input_tokens: torch.Tensor | None,
    expected_input_positions: torch.Tensor | None,
) -> None:
    """Stamp the slots of a plan, as the contract's section 4 says.

    The first launch builds the kernels, and raises CompilerMissing, CompileError or GpuUnavailable
    where that cannot be done. Raises ValueError as section 7 says.
    """
    _kernels(context).launch_canary_write_kernel(
        context=context,
        plan=plan,
        input_ids=input_ids,
        positions=positions,
        out_cache_loc=out_cache_loc,
        enable_write_input_assert=enable_write_input_assert,
        expected_input_tokens=expected_input_tokens,
        expected_input_positions=expected_input_positions,
    )


def launch_canary_verify_kernel(
    *, context: VerifyOrWriteContext, plan: VerifyPlan, check_verify_expected_token: bool
) -> None:
    """Check the slots of a plan, as the contract's section 5 says. Errors as for a write."""
    _kernels(context).launch_canary_verify_kernel(
        context=context, plan=plan, check_verify_expected_token=check_verify_expected_token
    )


def _kernels(context: VerifyOrWriteContext) -> emulated.EmulatedKernels | gpu.GpuKernels:
    if context.canary_buf.device.type == "cuda":
        return _gpu_kernels(consts.MAX_REAL_KV_SOURCES)
    return _emulated_kernels(consts.MAX_REAL_KV_SOURCES)


@lru_cache(maxsize=4)
def _emulated_kernels(max_sources: int) -> emulated.EmulatedKernels:
    return emulated.build(max_sources)


@lru_cache(maxsize=4)
def _gpu_kernels(max_sources: int) -> gpu.GpuKernels:
    return gpu.build(max_sources)
