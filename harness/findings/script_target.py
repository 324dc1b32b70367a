"""How a standalone script gets at a target."""

from __future__ import annotations

from ..targets.builtin import BUILTIN, PLANTED_PREFIX
from ..targets.large import LARGE_PREFIX
from ..targets.target import Target

_LAUNCHERS = (
    "target = Bag(launch_canary_write_kernel=loaded.write, "
    "launch_canary_verify_kernel=loaded.verify)"
)


def target_lines(target: Target, schedule: int) -> list[str]:
    """Lines that bind ``target``, an object with the two launchers, under an interleaving."""
    name = target.name
    if name.startswith(PLANTED_PREFIX):
        bug = name.removeprefix(PLANTED_PREFIX)
        made = "from kv_canary_fuzz.kernels.planted import build_planted"
        return [made, f"target = build_planted({bug!r})", *_scheduled(schedule)]
    if name == "emulated":
        made = "from kv_canary_fuzz.kernels import emulated"
        return [made, "target = emulated.build()", *_scheduled(schedule)]
    if name == "cuda":
        return ["from kv_canary_fuzz import kernels as target"]
    if name == "scalar":
        return ["from kv_canary_fuzz.reference import scalar_model as target"]
    if name in BUILTIN or name.startswith(LARGE_PREFIX):
        loader = "from kv_canary_fuzz.harness.targets.builtin import load_target"
        return [loader, f"loaded = load_target({name!r})", _LAUNCHERS]
    lines = [f"import {name} as target"]
    if target.set_schedule is not None and schedule:
        lines.append(f"target.set_schedule({schedule})")
    return lines


def _scheduled(schedule: int) -> list[str]:
    return [f"target.set_schedule({schedule})"] if schedule else []
