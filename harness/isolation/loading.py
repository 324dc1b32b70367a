"""Targets by name, those with native code isolated."""

from __future__ import annotations

import os
from dataclasses import replace

from ..targets.builtin import load_target
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
    if not target.native or not hasattr(os, "memfd_create"):
        return target
    deadline = Deadline(floor, builds=target.device != "cpu")
    return replace(target, isolation=Isolation(nursery_for(target), deadline))


def load_isolated_reference(name: str, floor: float = FLOOR_SECONDS) -> Target | None:
    """The target to compare with; None for ``torch``, which the harness runs in batches."""
    return None if name == "torch" else load_isolated(name, floor)
