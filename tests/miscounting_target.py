"""A target that miscounts where there are two sources."""

from __future__ import annotations

from typing import Any

from kv_canary_fuzz.reference import scalar_model

launch_canary_verify_kernel = scalar_model.launch_canary_verify_kernel


def launch_canary_write_kernel(**arguments: Any) -> None:
    scalar_model.launch_canary_write_kernel(**arguments)
    context = arguments["context"]
    if len(context.real_kv_sources) == 2:
        context.slot_run_counter.add_(1)
