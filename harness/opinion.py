"""A third opinion on a mismatch: the scalar model says who stands alone."""

from __future__ import annotations

from kv_canary_fuzz.strategies.case import Case

from .layout import lay_out
from .target import Target
from .targets import load_target
from .verdict import judge

LARGEST_BYTES = 256 * 1024
"""Cases that take more than this are too slow for plain Python integers."""


def who_stands_alone(case: Case, target: Target, reference: Target | None) -> str:
    """One sentence on which of target, reference and scalar model disagrees with the other two.

    Empty where the case is too large to ask, or where the reference is the scalar model.
    """
    if lay_out(case).size > LARGEST_BYTES or (reference and reference.name == "scalar"):
        return ""
    scalar = load_target("scalar")
    with_reference = judge(case, scalar, reference).agrees
    with_target = judge(case, target, scalar).agrees
    if with_reference and with_target:
        return "the scalar model agrees with both"
    if with_reference:
        return f"{target.name} stands alone: the scalar model agrees with the reference"
    if with_target:
        return f"the reference stands alone: the scalar model agrees with {target.name}"
    return "target, reference and scalar model all differ"
