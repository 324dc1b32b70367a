"""The torch reference over batches of launches, and over single ones as the launchers take them.

The launches of a batch share no memory that any of them writes. They are run as one where all their
tensors lie in one storage, and otherwise one by one, to the same effect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

from . import consts
from .checked import CheckedLaunchers
from .contract import DOCUMENTED, Contract
from .memory import NotOneStorage
from .ring import Rows
from .table import LaunchTable, verify_table, write_table
from .types import VerifyLaunch, WriteLaunch
from .verify import run_verify
from .write import run_write

Launch = TypeVar("Launch", WriteLaunch, VerifyLaunch)


def run_write_batch(launches: Sequence[WriteLaunch]) -> Rows:
    """Run write launches that `check_write` passes; every row that they produced."""
    return _run(launches, write_table, run_write)


def run_verify_batch(launches: Sequence[VerifyLaunch]) -> Rows:
    """Run verify launches that `check_verify` passes; every row that they produced."""
    return _run(launches, verify_table, run_verify)


def torch_reference(contract: Contract) -> CheckedLaunchers:
    """The launchers of the torch reference under a revision of the contract."""
    return CheckedLaunchers(
        contract=contract,
        run_write=lambda launch: run_write_batch((launch,)),
        run_verify=lambda launch: run_verify_batch((launch,)),
    )


_documented = torch_reference(DOCUMENTED)
launch_canary_write_kernel_torch_reference = _documented.launch_canary_write_kernel
launch_canary_verify_kernel_torch_reference = _documented.launch_canary_verify_kernel


def _run(
    launches: Sequence[Launch],
    make_table: Callable[[Sequence[Launch]], LaunchTable],
    run: Callable[[LaunchTable], Rows],
) -> Rows:
    if not launches:
        return _no_rows()
    try:
        return run(make_table(launches))
    except NotOneStorage:
        parts = [run(make_table((launch,))) for launch in launches]
    return Rows(
        launch=torch.cat([part.launch + place for place, part in enumerate(parts)]),
        values=torch.cat([part.values for part in parts]),
    )


def _no_rows() -> Rows:
    nothing = torch.empty(0, dtype=torch.int64)
    return Rows(launch=nothing, values=nothing.reshape(0, consts.VIOLATION_FIELDS))
