"""The checks of the conformance test, each a function of a target that says what it saw."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal

import torch
from msgspec import Struct
from msgspec.structs import replace

from kv_canary_fuzz.reference import run_verify_batch, run_write_batch
from kv_canary_fuzz.reference.golden import GOLDEN, GoldenLaunch, read_golden
from kv_canary_fuzz.reference.types import VerifyLaunch, WriteLaunch
from kv_canary_fuzz.strategies.case import Case
from kv_canary_fuzz.strategies.classify import Domain
from kv_canary_fuzz.strategies.prng import case_at

from ..execution.fuzzer import Fuzzer
from ..judging.verdict import Verdict, judge
from ..targets.sglang_trial import try_launches
from ..targets.target import VERIFY_LAUNCHER, WRITE_LAUNCHER, Target, TargetError

SEED = 2026
_MOST_LINES = 3
_BATCH = 64

State = Literal["ok", "missing", "not claimed"]


class Check(Struct, frozen=True):
    """One check: ``lines`` say what was seen, where it is not simply right."""

    name: str
    state: State
    lines: tuple[str, ...] = ()


def _checked(name: str, faults: Sequence[str]) -> Check:
    return Check(name, "missing" if faults else "ok", tuple(faults))


def launchers(target: Target) -> Check:
    """Whether both take the contract's keyword arguments and want no others."""
    faults = []
    for name, launcher, bundle in (
        (WRITE_LAUNCHER, target.write, WriteLaunch),
        (VERIFY_LAUNCHER, target.verify, VerifyLaunch),
    ):
        given = list(inspect.signature(bundle).parameters)
        faults += [f"{name} {fault}" for fault in _signature_faults(launcher, given)]
    return _checked("both launchers take the contract's keyword arguments", faults)


def _signature_faults(launcher: Callable[..., None], given: list[str]) -> list[str]:
    taken = inspect.signature(launcher).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken):
        names = set(given)
    else:
        names = {p.name for p in taken if p.kind is not p.POSITIONAL_ONLY}
    wanted = [
        p.name
        for p in taken
        if p.default is p.empty
        and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
        and (p.name not in given or p.kind is p.POSITIONAL_ONLY)
    ]
    faults = [f"does not take {name!r}" for name in given if name not in names]
    return faults + [f"wants {name!r}, which no caller gives" for name in wanted]


def device(target: Target) -> Check:
    """Whether tensors can be had where the target says that they live."""
    name = f"tensors can live on its device, {target.device}"
    try:
        torch.empty(1, device=target.device)
    except Exception as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        return Check(name, "missing", (f"torch cannot make one there: {first}",))
    return Check(name, "ok")


def launches(target: Target) -> Check:
    """Whether a tiny launch of each kind returns."""
    name = "a launch of one entry returns"
    try:
        try_launches(target.write, target.verify, target.device, target.name)
    except TargetError as error:
        return Check(name, "missing", (str(error).splitlines()[0],))
    return Check(name, "ok")


def golden_vectors(target: Target) -> Check:
    """Whether the launches whose outcome sglang 0.5.23 gave end the same."""
    faults = []
    vectors = read_golden(GOLDEN)
    for vector in vectors:
        launch = vector.build(target.device)
        launcher = target.write if isinstance(launch, WriteLaunch) else target.verify
        try:
            launcher(**launch.arguments())
        except Exception as error:
            faults.append(f"vector {vector.index} ({vector.kernel}) raised {error!r}")
            continue
        wrong = vector.disagreements(launch.context, _rows(vector))
        if wrong:
            faults.append(f"vector {vector.index} ({vector.kernel}) differs in {', '.join(wrong)}")
    said = f"the {len(vectors)} golden vectors are reproduced"
    return _checked(said, _first(faults, f"of {len(vectors)} vectors"))


def _rows(vector: GoldenLaunch) -> list[tuple[int, ...]]:
    launch = vector.build()
    if isinstance(launch, WriteLaunch):
        made = run_write_batch([launch])
    else:
        made = run_verify_batch([launch])
    return [tuple(row) for row in made.values.tolist()]


def domain(target: Target, wanted: Domain, cases: int) -> Check:
    """Whether a short campaign of one domain agrees; where it is not claimed, that is said."""
    made = [case_at(SEED, index, wanted.value, target.contract) for index in range(cases)]
    said = f"{cases} {wanted.value} cases agree with the reference"
    faults = _differences(target, made)
    if wanted in target.domains:
        return _checked(said, faults)
    note = f"DOMAINS lacks {wanted.value!r}"
    if not faults:
        note += ", and all of them agreed: it may be claimed"
    return Check(said, "not claimed", (note, *faults))


def strided_rows(target: Target, cases: int) -> Check:
    """Whether sources whose rows lie apart are read right, or refused where they must be."""
    made = [
        _apart(case)
        for case in (case_at(SEED + 1, index, "valid") for index in range(8 * cases))
        if any(source.rows > 1 for source in case.real_kv_sources)
    ][:cases]
    if target.contract.strided_rows:
        return _checked(
            f"{cases} cases with rows apart agree with the reference", _differences(target, made)
        )
    said = f"{cases} cases with rows apart are refused, as in revision {target.contract.name}"
    if Domain.REFUSED in target.domains:
        return _checked(said, _differences(target, made))
    return Check(said, "not claimed", ("DOMAINS lacks 'refused'",))


def _apart(case: Case) -> Case:
    sources = tuple(replace(source, row_gap=48) for source in case.real_kv_sources)
    return replace(case, real_kv_sources=sources)


def graph_replay(target: Target, cases: int) -> Check:
    """Whether captured launches agree when they are replayed over other contents."""
    said = f"{cases} cases agree when captured in a graph and replayed"
    if target.streams is None:
        return Check(said, "not claimed", (f"device {target.device} has no graphs",))
    if not target.streams.captures:
        return Check(said, "not claimed", ("CAPTURES is not set",))
    made = (case_at(SEED + 2, index, "valid", target.contract) for index in range(cases))
    graphs = [replace(case, launching="graph") for case in made]
    return _checked(said, _differences(target, graphs))


def schedules(target: Target) -> Check:
    """Whether an interleaving can be chosen, where the target offers that."""
    said = "set_schedule takes a seed of 64 bits"
    if target.set_schedule is None:
        return Check(said, "not claimed", ("there is no set_schedule",))
    try:
        target.set_schedule(2**64 - 1)
        target.set_schedule(0)
    except Exception as error:
        return Check(said, "missing", (f"it raised {error!r}",))
    return Check(said, "ok")


def _differences(target: Target, cases: Sequence[Case]) -> list[str]:
    """What differs, by signature, the most frequent first."""
    fuzzer = Fuzzer(target)
    seen: Counter[str] = Counter()
    examples: dict[str, Verdict] = {}
    for start in range(0, len(cases), _BATCH):
        batch = cases[start : start + _BATCH]
        for position in fuzzer.failing(batch):
            verdict = judge(batch[position], target)
            signature = verdict.signature or "differs in a batch, agrees alone"
            seen[signature] += 1
            examples.setdefault(signature, verdict)
    lines = []
    for signature, count in seen.most_common():
        first = examples[signature].mismatches[:1]
        detail = f": {first[0].line()}" if first else ""
        lines.append(f"{count} cases, {signature}{detail}")
    return _first(lines, "kinds of difference")


def _first(lines: list[str], what: str) -> list[str]:
    more = len(lines) - _MOST_LINES
    return [*lines[:_MOST_LINES], *([f"and {more} more {what}"] if more > 0 else [])]


CHECKS: tuple[Callable[[Target], Check], ...] = (
    launchers,
    device,
    launches,
    golden_vectors,
    lambda target: domain(target, Domain.VALID, 384),
    lambda target: strided_rows(target, 64),
    lambda target: domain(target, Domain.REFUSED, 256),
    lambda target: domain(target, Domain.HARDENED, 256),
    lambda target: graph_replay(target, 64),
    schedules,
)
"""In order; those behind one of the first three that fails are not made."""

NEEDED_FIRST = 3
