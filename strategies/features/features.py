"""Which features of the grammar a case has. Counted for every case of every campaign: keep it fast.

Names are ``family:value``; `ALL_FEATURES` lists them by domain.
"""

from __future__ import annotations

from kv_canary_fuzz.reference.enums import CanaryLaunchTag

from ..case import LAUNCHINGS, Case, CorruptStep, VerifyStep, WriteStep
from .corrupt import corrupt_features
from .hardened import state_features as hardened_state
from .hardened import verify_features as hardened_verify
from .hardened import write_features as hardened_write
from .names import ALL_FEATURES, STATE, STRIDED, expected_features
from .state import state_features
from .verify import verify_features
from .write import write_features

__all__ = ["ALL_FEATURES", "STRIDED", "expected_features", "features"]

_KINDS = tuple(f"kernel_kind:{tag.name}" for tag in CanaryLaunchTag)
_LAUNCHINGS = {name: f"launching:{name}" for name in LAUNCHINGS}
_BASES = {0: "base:64", **{unit: f"base:{unit}" for unit in (4, 8, 16, 32)}}
"""By the lowest bit of the shift, which is how far any tensor's base is aligned."""
_SHAPES = frozenset(name for name in STATE if name.startswith("steps:"))


def features(case: Case) -> frozenset[str]:
    """The features of a well-formed case."""
    found: set[str] = set()
    state_features(case, found)
    hardened_state(case, found)
    stamped: set[int] = set()
    letters = ""
    for step in case.steps:
        if isinstance(step, WriteStep):
            if not step.faults:
                letters += "w"
                found.add(_KINDS[step.kernel_kind])
                hardened_write(case, step, found)
                write_features(step, stamped, found)
        elif isinstance(step, VerifyStep):
            if not step.faults:
                letters += "v"
                found.add(_KINDS[step.kernel_kind])
                hardened_verify(case, step, found)
                verify_features(step, stamped, found)
        else:
            letters += "c"
            corrupt_features(case, step, found)
    shape = "steps:" + letters
    if shape in _SHAPES:
        found.add(shape)
    _refused(case, found)
    _variation(case, found)
    return frozenset(found)


def _variation(case: Case, found: set[str]) -> None:
    found.add(_LAUNCHINGS[case.launching])
    found.add(_BASES[case.shift & -case.shift])
    steps = case.steps
    half = len(steps) // 2
    if half and steps[:half] == steps[half:]:
        found.add("steps:twice")


def _refused(case: Case, found: set[str]) -> None:
    last = len(case.steps) - 1
    for i, step in enumerate(case.steps):
        if isinstance(step, CorruptStep) or not step.faults:
            continue
        found.update([f"fault:{fault.kind}" for fault in step.faults])
        found.add(f"faults:{len(step.faults)}")
        found.add("refused_step:write" if isinstance(step, WriteStep) else "refused_step:verify")
        found.add(
            "refused_at:first"
            if i == 0
            else "refused_at:last"
            if i == last
            else "refused_at:between"
        )
