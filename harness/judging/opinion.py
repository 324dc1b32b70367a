"""A third opinion on a mismatch: who stands alone."""

from __future__ import annotations

from kv_canary_fuzz.strategies.case import Case

from ..execution.layout import lay_out
from ..targets.builtin import load_target
from ..targets.target import Target
from .verdict import judge

LARGEST_BYTES = 256 * 1024
"""Cases that take more than this are too slow for plain Python integers."""


def who_stands_alone(
    case: Case, target: Target, reference: Target | None, third: Target | None = None
) -> str:
    """One sentence on which of target, reference and a third one disagrees with the other two.

    The third is the scalar model where none is given; then the sentence is empty where the case is
    too large to ask it, or where it is the reference.
    """
    name, other = "the reference", "the scalar model"
    if third is not None:
        name, other = reference.name if reference else "torch", third.name
    elif lay_out(case).size > LARGEST_BYTES or (reference and reference.name == "scalar"):
        return ""
    asked = third or load_target(f"scalar@{target.contract.name}")
    with_reference = judge(case, asked, reference).agrees
    with_target = judge(case, asked, target).agrees
    if with_reference and with_target:
        return f"{other} agrees with both"
    if with_reference:
        return f"{target.name} stands alone: {other} agrees with {name}"
    if with_target:
        return f"{name} stands alone: {other} agrees with {target.name}"
    if third is not None:
        return f"{target.name}, {name} and {other} all differ"
    return "target, reference and scalar model all differ"
