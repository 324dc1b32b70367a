"""What a reproducer says about where it comes from."""

from __future__ import annotations

import platform
from importlib.metadata import version

import torch

from kv_canary_fuzz.strategies.case import Case

from ..campaign.settings import Settings
from ..targets.sglang_targets import SGLANG, SGLANG_REFERENCE
from .reproducer import Reproducer


def describe(
    settings: Settings, case: Case, index: int, signature: str, lines: tuple[str, ...]
) -> Reproducer:
    """The file for a finding of a campaign; ``lines`` say what was expected and found.

    A case of the corpus has an index below 0 there, which means nothing outside of the run.
    """
    return Reproducer(
        case=case,
        signature=signature,
        target=settings.target,
        reference=settings.reference,
        mismatches=lines,
        seed=settings.seed,
        index=max(index, -1),
        versions=versions(settings.target),
    )


def versions(target: str) -> dict[str, str]:
    """The versions that a result about a target depends on."""
    found = {
        "kv-canary-fuzz": version("kv-canary-fuzz"),
        "python": platform.python_version(),
        "torch": str(torch.__version__),
    }
    if target in (SGLANG, SGLANG_REFERENCE):
        found["sglang"] = version("sglang")
    return found
