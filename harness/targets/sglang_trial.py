"""Launches that build kernels before a campaign: a build that fails is no finding."""

from __future__ import annotations

import torch

from kv_canary_fuzz.reference.building import (
    build_context,
    build_verify_launch,
    build_write_launch,
)

from .target import Launcher, TargetError


def try_launches(write: Launcher, verify: Launcher, device: str, title: str) -> None:
    """One tiny launch of each kind. Raises TargetError with the message of whatever is raised."""
    context = build_context(device=device)
    launch = build_write_launch(
        context,
        write_offsets=[0, 1],
        write_seed_slot_indices=[-1],
        input_ids=[5],
        positions=[0],
        out_cache_loc=[1],
    )
    checks = [
        build_verify_launch(
            context,
            verify_slot_indices=[1],
            verify_expected_positions=[0],
            verify_prev_slot_indices=[-1],
            verify_expected_tokens=tokens,
        )
        for tokens in (None, [5])
    ]
    try:
        write(**launch.arguments())
        for check in checks:
            verify(**check.arguments())
        if device != "cpu":
            torch.cuda.synchronize()
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        raise TargetError(f"{title} cannot be built or launched: {message}") from error
