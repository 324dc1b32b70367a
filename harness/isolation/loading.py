"""Targets by name, those with native code isolated."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cache

import torch

from kv_canary_fuzz.reference.contract import Contract

from ..targets.builtin import load_reference, load_target, name_of_other
from ..targets.devices import is_gpu, synchronizer
from ..targets.target import Target
from .deadline import Deadline
from .isolation import Isolation
from .nursery import nursery_for

FLOOR_SECONDS = 2.0


def load_isolated(name: str, floor: float = FLOOR_SECONDS) -> Target:
    """The target called ``name``; one with native code runs in processes of its own from here on.

    ``floor`` is the processor time that a launch may take in any case. A system that has no
    anonymous files runs everything where it is. Raises TargetError.
    """
    target = load_target(name)
    return isolated(target, target.name, floor)


def load_isolated_reference(
    name: str, contract: Contract, floor: float = FLOOR_SECONDS
) -> Target | None:
    """The target to compare with; None for ``torch``, which the harness runs in batches."""
    reference = load_reference(name, contract)
    if reference is None:
        return None
    return isolated(reference, name_of_other(name, contract), floor, counts=False)


def let_go(*targets: Target | None) -> None:
    """Let the processes of those that are isolated end; they are replaced where that is needed."""
    for target in targets:
        if target is not None and target.isolation is not None:
            target.isolation.let_go()


def disposable(target: Target) -> Target:
    """``target`` where each of its runs can have a fresh process.

    One of ours without native code, which runs where it is, is loaded there as well for that. Any
    other that is not isolated has no process but this one, and comes back as it is.
    """
    if target.native or target.isolation is not None or not hasattr(os, "memfd_create"):
        return target
    return _twin(name_of_other(target.name, target.contract), target.name)


@cache
def _twin(name: str, called: str) -> Target:
    native = replace(load_target(name), name=called, native=True)
    return isolated(native, name, FLOOR_SECONDS, counts=False)


def isolated(target: Target, name: str, floor: float, *, counts: bool = True) -> Target:
    """``target``, which was loaded as ``name``, isolated where that makes sense.

    ``counts`` is False for one that never counts what it reaches.
    """
    if not target.native or not hasattr(os, "memfd_create"):
        return target
    gpu = torch.cuda.current_device() if is_gpu(target) else None
    deadline = Deadline(floor, builds=gpu is not None)
    nursery = nursery_for(target, name, counts=counts)
    late = synchronizer(target) is not None
    return replace(target, isolation=Isolation(nursery, deadline, gpu, late=late))
