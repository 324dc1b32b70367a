"""Launches made illegal on purpose: what a Fault does to the tensors of a legal launch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import torch

from kv_canary_fuzz.reference import RealKvSource, VerifyLaunch, WriteLaunch
from kv_canary_fuzz.strategies.case import Fault

Launch = WriteLaunch | VerifyLaunch
Value = TypeVar("Value")

_OTHER_DTYPE = {
    torch.int64: torch.float64,
    torch.int32: torch.float32,
    torch.uint8: torch.int8,
}


class FaultyTensors:
    """A legal launch and the faults to put into it.

    Replaced tensors are copies outside the arena: a refused launch touches nothing, so whatever is
    done to them shows as a difference in the counters.
    """

    def __init__(self, launch: Launch, faults: tuple[Fault, ...]) -> None:
        self._launch = launch
        self._faults = faults

    def launch(self) -> Launch:
        """The illegal launch. Raises ValueError where a source cannot even be constructed."""
        launch = self._launch
        for fault in self._faults:
            launch = _apply(launch, fault)
        return launch


def _apply(launch: Launch, fault: Fault) -> Launch:
    context = launch.context
    match fault.kind:
        case "too_many_sources":
            sources = list(context.real_kv_sources) or [_spare_source(context.canary_buf)]
            repeated = [sources[k % len(sources)] for k in range(fault.amount)]
            return _with_in_context(launch, "real_kv_sources", tuple(repeated))
        case "hash_mode":
            return _with_in_context(launch, "real_kv_hash_mode", fault.amount)
        case "expected_missing":
            return _with(launch, fault.tensor, None)
        case "expected_unwanted":
            assert isinstance(launch, WriteLaunch)
            return _with(launch, fault.tensor, launch.input_ids.clone())
        case "source_field":
            return _replace_source(launch, fault.tensor, lambda _: fault.amount)
        case _:
            return _replace_tensor(launch, fault.tensor or "canary_buf", _changed(fault))


def _spare_source(canary: torch.Tensor) -> RealKvSource:
    tensor = torch.zeros(canary.shape[0], 16, dtype=torch.uint8, device=canary.device)
    return RealKvSource(tensor=tensor, page_size=1, num_bytes_per_token=16, read_bytes=16)


def _changed(fault: Fault) -> Callable[[torch.Tensor], torch.Tensor]:
    """What the fault does to the tensor that it names."""

    def change(tensor: torch.Tensor) -> torch.Tensor:
        match fault.kind:
            case "not_contiguous":
                wide = tensor.new_empty((*tensor.shape, 2))
                wide[..., 0] = tensor
                return wide[..., 0]
            case "rank":
                return tensor.reshape(-1) if fault.amount == 1 else tensor.unsqueeze(1).clone()
            case "dtype":
                return tensor.to(_OTHER_DTYPE[tensor.dtype])
            case "shape":
                if fault.amount < 0:
                    return tensor[:-1].clone()
                return torch.cat([tensor, tensor.new_zeros((1, *tensor.shape[1:]))])
            case "device":
                return tensor.to("meta")
            case "misaligned":
                return _at_odd_address(tensor, fault.amount)
            case "slot_stride":
                return tensor.new_zeros((tensor.shape[0], fault.amount))
            case "short_source":
                return tensor[: fault.amount].clone()
        raise ValueError(f"fault {fault.kind} does not change a tensor")

    return change


def _at_odd_address(tensor: torch.Tensor, shift: int) -> torch.Tensor:
    storage = tensor.new_empty(tensor.numel() + shift)
    moved = storage[shift:].view(tensor.shape)
    return moved.copy_(tensor)


def _with(value: Value, field: str, changed: Any) -> Value:
    return replace(value, **{field: changed})  # type: ignore[type-var]


def _with_in_context(launch: Launch, field: str, changed: Any) -> Launch:
    return replace(launch, context=_with(launch.context, field, changed))


def _replace_tensor(
    launch: Launch, name: str, change: Callable[[torch.Tensor], torch.Tensor]
) -> Launch:
    if name.startswith("real_kv_sources["):
        return _replace_source(launch, name, lambda source: change(source.tensor))
    if name.startswith("plan."):
        field = name.removeprefix("plan.")
        return _with(launch, "plan", _with(launch.plan, field, change(getattr(launch.plan, field))))
    if hasattr(launch.context, name):
        return _with_in_context(launch, name, change(getattr(launch.context, name)))
    return _with(launch, name, change(getattr(launch, name)))


def _replace_source(launch: Launch, name: str, value: Callable[[RealKvSource], Any]) -> Launch:
    """``name`` is ``real_kv_sources[i].FIELD``; ``value`` gives the field's new value."""
    index = int(name[len("real_kv_sources[") : name.index("]")])
    sources = list(launch.context.real_kv_sources)
    field = name.rpartition(".")[2]
    sources[index] = _with(sources[index], field, value(sources[index]))
    return _with_in_context(launch, "real_kv_sources", tuple(sources))
