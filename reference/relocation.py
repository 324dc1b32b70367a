"""Launches over other memory: the same launch with each of its tensors replaced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

import torch

from .types import VerifyLaunch, WriteLaunch

_CHANGED = (
    "canary_buf",
    "violation_ring",
    "violation_write_index",
    "slot_run_counter",
    "kernel_run_counter",
)

Launch = TypeVar("Launch", WriteLaunch, VerifyLaunch)


def map_tensors(launch: Launch, place: Callable[[torch.Tensor], torch.Tensor]) -> Launch:
    """The launch with ``place(tensor)`` for each of its tensors."""
    mapped: Launch = _map(launch, place)
    return mapped


def run_on_host(launch: Launch, run: Callable[[Launch], None]) -> None:
    """Run on the launch's own tensors, or on CPU copies of them that are copied back after."""
    if launch.context.canary_buf.device.type == "cpu":
        run(launch)
        return
    run_elsewhere(launch, torch.Tensor.cpu, run)


def run_elsewhere(
    launch: Launch,
    copied: Callable[[torch.Tensor], torch.Tensor],
    run: Callable[[Launch], None],
) -> None:
    """Run on copies of the launch's tensors, and copy back what a launch changes."""
    other = map_tensors(launch, copied)
    run(other)
    for name in _CHANGED:
        getattr(launch.context, name).copy_(getattr(other.context, name))


def _map(value: Any, place: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return place(value)
    if is_dataclass(value) and not isinstance(value, type):
        items = {field.name: _map(getattr(value, field.name), place) for field in fields(value)}
        return replace(value, **items)
    if isinstance(value, tuple | list):
        return tuple(_map(item, place) for item in value)
    return value
