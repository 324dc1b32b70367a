"""The two launchers over functions that run a launch, under any revision of the contract."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from .contract import Contract
from .types import VerifyLaunch, VerifyOrWriteContext, VerifyPlan, WriteLaunch, WritePlan
from .validation import check_verify, check_write


@dataclass(eq=False, kw_only=True)
class CheckedLaunchers:
    """Refuses what ``contract`` says (section 7) and hands every other launch on.

    ``contract`` may be set between launches. ``max_sources`` is the compiled bound on sources; None
    is the contract's.
    """

    contract: Contract
    run_write: Callable[[WriteLaunch], object]
    run_verify: Callable[[VerifyLaunch], object]
    max_sources: int | None = None

    def launch_canary_write_kernel(
        self,
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
        """Stamp the planned slots. Raises ValueError."""
        launch = WriteLaunch(
            context=context,
            plan=plan,
            input_ids=input_ids,
            positions=positions,
            out_cache_loc=out_cache_loc,
            enable_write_input_assert=enable_write_input_assert,
            expected_input_tokens=expected_input_tokens,
            expected_input_positions=expected_input_positions,
        )
        check_write(launch, max_sources=self.max_sources, contract=self.contract)
        self.run_write(launch)

    def launch_canary_verify_kernel(
        self, *, context: VerifyOrWriteContext, plan: VerifyPlan, check_verify_expected_token: bool
    ) -> None:
        """Check the planned slots. Raises ValueError."""
        launch = VerifyLaunch(
            context=context, plan=plan, check_verify_expected_token=check_verify_expected_token
        )
        check_verify(launch, max_sources=self.max_sources, contract=self.contract)
        self.run_verify(launch)
