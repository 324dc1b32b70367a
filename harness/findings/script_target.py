"""How a standalone script gets at a target."""

from __future__ import annotations

from kv_canary_fuzz.reference import DOCUMENTED
from kv_canary_fuzz.strategies.case import Case, CorruptStep

from ..targets.builtin import BUILTIN, PLANTED_PREFIX, REVISION_MARK
from ..targets.large import LARGE_PREFIX
from ..targets.target import Target

_LAUNCHERS = (
    "target = Bag(launch_canary_write_kernel=loaded.write, "
    "launch_canary_verify_kernel=loaded.verify)"
)


_PLAIN = {
    "cuda": "from kv_canary_fuzz import kernels as target",
    "scalar": "from kv_canary_fuzz.reference import scalar_model as target",
}


def target_lines(target: Target, case: Case) -> list[str]:
    """Lines that bind ``target``, an object with the two launchers, as ``case`` needs it."""
    name, schedule = target.name.partition(REVISION_MARK)[0], case.schedule
    if name.startswith(PLANTED_PREFIX):
        bug = name.removeprefix(PLANTED_PREFIX)
        made = "from kv_canary_fuzz.kernels.planted import build_planted"
        bound = [made, f"target = build_planted({bug!r})"]
        return [*bound, *_scheduled(schedule), *_revised(target, case)]
    if name == "emulated":
        made = "from kv_canary_fuzz.kernels import emulated"
        bound = [made, "target = emulated.build()"]
        return [*bound, *_scheduled(schedule), *_revised(target, case)]
    if name in _PLAIN and not _revised(target, case):
        return [_PLAIN[name]]
    if name.partition(":")[0] in BUILTIN or name.startswith(LARGE_PREFIX):
        loader = "from kv_canary_fuzz.harness.targets.builtin import load_target"
        return [loader, f"loaded = load_target({target.name!r})", _LAUNCHERS]
    lines = [f"import {name} as target"]
    if target.set_schedule is not None and schedule:
        lines.append(f"target.set_schedule({schedule})")
    return lines


def _scheduled(schedule: int) -> list[str]:
    return [f"target.set_schedule({schedule})"] if schedule else []


def _revised(target: Target, case: Case) -> list[str]:
    """The revision of the contract, where that of a fresh build would not do."""
    if target.contract == DOCUMENTED or not _depends_on_revision(case):
        return []
    made = "from kv_canary_fuzz.reference import CONTRACTS"
    return [made, f"target.contract = CONTRACTS[{target.contract.name!r}]"]


def _depends_on_revision(case: Case) -> bool:
    """Whether revisions differ on where the bytes of the case's sources may lie."""
    faults = [
        fault for step in case.steps if not isinstance(step, CorruptStep) for fault in step.faults
    ]
    spread = any(fault.kind == "not_contiguous" and "[" in fault.tensor for fault in faults)
    return spread or any(source.row_gap for source in case.real_kv_sources)
