"""The specification: what a kv-canary implementation must do, as names, refusals and two models."""

from . import consts
from .batch import (
    launch_canary_verify_kernel_torch_reference,
    launch_canary_write_kernel_torch_reference,
    run_verify_batch,
    run_write_batch,
)
from .contract import CONTRACTS, DOCUMENTED, RELEASED, Contract
from .enums import CanaryLaunchTag, FailReason, RealKvHashMode
from .ring import Rows
from .types import (
    CanaryWriteContext,
    RealKvSource,
    VerifyLaunch,
    VerifyOrWriteContext,
    VerifyPlan,
    WriteLaunch,
    WritePlan,
    is_valid_kv_source,
    sources_within_abi_limit,
)
from .validation import check_verify, check_write

__all__ = [
    "CONTRACTS",
    "DOCUMENTED",
    "RELEASED",
    "CanaryLaunchTag",
    "CanaryWriteContext",
    "Contract",
    "FailReason",
    "RealKvHashMode",
    "RealKvSource",
    "Rows",
    "VerifyLaunch",
    "VerifyOrWriteContext",
    "VerifyPlan",
    "WriteLaunch",
    "WritePlan",
    "check_verify",
    "check_write",
    "consts",
    "is_valid_kv_source",
    "launch_canary_verify_kernel_torch_reference",
    "launch_canary_write_kernel_torch_reference",
    "run_verify_batch",
    "run_write_batch",
    "sources_within_abi_limit",
]
