"""The targets that come with the project; the only place of the harness that names kernels."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kv_canary_fuzz.reference.contract import CONTRACTS, RELEASED, Contract

from .large import LARGE_PREFIX, large_target
from .sglang_targets import SGLANG, SGLANG_REFERENCE, kernels_of_sglang, reference_of_sglang
from .target import Target, TargetError, load_module_target, streams_of, target_of

if TYPE_CHECKING:
    from kv_canary_fuzz.kernels.planted import PlantedBug

PLANTED_PREFIX = "planted:"
SANITIZED = "sanitized"
SANITIZED_PREFIX = "sanitized:"
REVISION_MARK = "@"
"""Between a target's name and the revision of the contract that it is asked to follow."""

COVERAGE_FOLDER = "KV_CANARY_FUZZ_COVERAGE"
"""The environment variable that names the folder into which emulated targets count."""


def _emulated(contract: Contract) -> Target:
    from kv_canary_fuzz.kernels import counted, emulated

    counts = _counts()
    build = emulated.build if counts is None else partial(counted.build, counts)
    return _emulated_target("emulated", build, contract)


def _counts() -> Path | None:
    folder = os.environ.get(COVERAGE_FOLDER)
    return Path(folder) if folder else None


def _planted(name: str, contract: Contract) -> Target:
    from kv_canary_fuzz.kernels import planted

    _planted_bug(name)
    build = partial(planted.build_planted, name, counts=_counts())
    return _emulated_target(PLANTED_PREFIX + name, build, contract)


def _planted_bug(name: str) -> PlantedBug:
    known = {bug.name: bug for bug in planted_bugs()}
    if name not in known:
        raise TargetError(f"no planted bug {name!r}; there are: {', '.join(known)}")
    return known[name]


def _sanitized(contract: Contract, bug: str = "") -> Target:
    """The emulated build under sanitizers, with a bug or without; it needs isolation to run."""
    from kv_canary_fuzz.kernels import sanitized

    patches = _planted_bug(bug).patches if bug else ()
    kernels = _built(lambda: sanitized.build(patches))
    name = SANITIZED_PREFIX + bug if bug else SANITIZED
    target = Target(name=name, device="cpu", write=_elsewhere, verify=_elsewhere, contract=contract)
    if kernels is not None:
        target = _emulated_target(name, lambda: kernels, contract)
    environment = _built(sanitized.environment)
    return replace(target, environment=environment, fence=sanitized.fence)


def _elsewhere(**_: Any) -> None:
    raise TargetError("a sanitized build runs in a process of its own only: load it isolated")


def sanitized_name(target: str) -> str:
    """The name of the sanitized build in place of ``target``. Raises TargetError."""
    plain, mark, revision = target.partition(REVISION_MARK)
    if plain in ("auto", "emulated"):
        return f"{SANITIZED}{mark}{revision}"
    if plain.startswith(PLANTED_PREFIX):
        return SANITIZED_PREFIX + target.removeprefix(PLANTED_PREFIX)
    if plain == SANITIZED or plain.startswith(SANITIZED_PREFIX):
        return target
    raise TargetError(f"target {target!r} cannot be sanitized, only the emulated build can")


def _emulated_target(name: str, build: Callable[[], Any], contract: Contract) -> Target:
    from kv_canary_fuzz.kernels import counted

    kernels = _built(build)
    kernels.contract = contract
    return replace(target_of(name, kernels), contract=contract, leave=counted.leave_counts)


def _cuda(contract: Contract) -> Target:
    from kv_canary_fuzz.kernels import gpu

    kernels = _built(gpu.build)
    kernels.contract = contract
    streams = streams_of("cuda", captures=True)
    return replace(target_of("cuda", kernels), device="cuda", contract=contract, streams=streams)


def _built(build: Callable[[], Any]) -> Any:
    """What ``build`` gives. Raises TargetError where this machine cannot build or run it."""
    from kv_canary_fuzz.kernels import errors

    try:
        return build()
    except errors.UNAVAILABLE as error:
        raise TargetError(str(error)) from error


def _torch(contract: Contract) -> Target:
    from kv_canary_fuzz.reference.batch import torch_reference

    target = target_of("torch", torch_reference(contract))
    return replace(target, contract=contract, native=False)


def _scalar(contract: Contract) -> Target:
    from kv_canary_fuzz.reference.scalar_model import scalar_model

    target = target_of("scalar", scalar_model(contract))
    return replace(target, contract=contract, native=False)


def planted_bugs() -> tuple[PlantedBug, ...]:
    """The bugs that ``planted:NAME`` targets have."""
    from kv_canary_fuzz.kernels import planted

    return planted.planted_bugs()


def load_line_counts(folder: Path) -> Mapping[str, Sequence[tuple[str, int, int, tuple[int, ...]]]]:
    """Of each kernel its lines as (file, line, count, counts of its branches), counted there.

    Raises TargetError where they cannot be read.
    """
    from kv_canary_fuzz.kernels import counted

    counts: Mapping[str, Sequence[tuple[str, int, int, tuple[int, ...]]]]
    counts = _built(partial(counted.read_folder, folder))
    return counts


def countable_target(name: str) -> str:
    """The target that counts what it reaches where ``name`` is asked for. Raises TargetError."""
    plain, mark, revision = name.partition(REVISION_MARK)
    if plain in ("auto", "emulated"):
        return f"emulated{mark}{revision}"
    if name.startswith(PLANTED_PREFIX):
        return name
    raise TargetError(
        f"coverage of the CUDA source is counted where it runs on the CPU, not on {name!r}: "
        f"take the target emulated or {PLANTED_PREFIX}BUG"
    )


def load_traced_target() -> tuple[Target, Callable[[], frozenset[int]]]:
    """The emulated kernels, and which of their basic blocks ran since that was last asked.

    Raises TargetError where they cannot be built.
    """
    from kv_canary_fuzz.kernels import emulated

    kernels = _built(lambda: emulated.build(trace_blocks=True))
    return _emulated_target("emulated", lambda: kernels, RELEASED), kernels.take_blocks


def load_limits() -> Any:
    """The kernels that bound the others' speed: ``nothing()`` and ``mix_chain(tokens)``.

    Raises TargetError where they cannot be built or run.
    """
    from kv_canary_fuzz.kernels import limits

    return _built(limits.Limits)


BUILTIN: dict[str, tuple[str, Callable[[Contract], Target]]] = {
    "emulated": ("our CUDA source, run on the CPU", _emulated),
    "cuda": ("our CUDA source on a GPU", _cuda),
    "torch": ("our torch reference", _torch),
    "scalar": ("the contract in plain Python integers", _scalar),
    SGLANG: ("the CUDA kernels of an installed sglang, on a GPU", lambda _: kernels_of_sglang("")),
    SGLANG_REFERENCE: (
        "the torch reference of an installed sglang",
        lambda _: reference_of_sglang(""),
    ),
    SANITIZED: ("our CUDA source, run on the CPU under sanitizers", _sanitized),
}

OURS = ("emulated", "cuda", "torch", "scalar")
"""Targets that follow any revision of the contract, and the newest where none is asked for."""


def load_target(name: str) -> Target:
    """The target called ``name``: built in, ``planted:BUG`` (``sanitized:BUG``), or a module's.

    ``auto`` is what `auto_target` gives, and ``large:NAME`` the target NAME under launches in huge
    memory, see `large`. Behind the name of a target of ours, ``@REVISION`` says which revision of
    the contract it follows; ``sglang:WHERE`` and ``sglang-reference:WHERE`` are of another tree
    than the installed one (see `sglang_names`). Raises TargetError.
    """
    if name.startswith(2 * LARGE_PREFIX):
        raise TargetError(f"target {name[:40]!r}: {LARGE_PREFIX} stands before a name once")
    if name.startswith(LARGE_PREFIX):
        return large_target(load_target(name.removeprefix(LARGE_PREFIX)))
    named, _, where = name.partition(":")
    if where and named in (SGLANG, SGLANG_REFERENCE):
        return kernels_of_sglang(where) if named == SGLANG else reference_of_sglang(where)
    plain, mark, revision = name.partition(REVISION_MARK)
    contract = _asked_for(plain, revision) if mark else RELEASED
    if plain == "auto":
        target = auto_target(contract)
    elif plain.startswith(PLANTED_PREFIX):
        target = _planted(plain.removeprefix(PLANTED_PREFIX), contract)
    elif plain.startswith(SANITIZED_PREFIX):
        target = _sanitized(contract, plain.removeprefix(SANITIZED_PREFIX))
    elif plain in BUILTIN:
        target = BUILTIN[plain][1](contract)
    else:
        try:
            return load_module_target(name)
        except TargetError as error:
            raise TargetError(f"{error}; built-in targets: {', '.join(BUILTIN)}") from error
    return replace(target, name=f"{target.name}{mark}{revision}")


def _asked_for(plain: str, revision: str) -> Contract:
    if revision not in CONTRACTS:
        raise TargetError(
            f"no revision {revision!r} of the contract; there are: {', '.join(CONTRACTS)}"
        )
    if plain != "auto" and not _follows_any(plain):
        raise TargetError(f"target {plain!r} follows one revision; {', '.join(OURS)} follow any")
    return CONTRACTS[revision]


def load_reference(name: str, contract: Contract) -> Target | None:
    """The target to compare with; None for ``torch``, which the harness runs in batches.

    It is as `load_other` gives it, and does not count what it reaches: that is asked of the target.
    """
    if name == "torch":
        return None
    counts = os.environ.pop(COVERAGE_FOLDER, None)
    try:
        return load_other(name, contract)
    finally:
        if counts is not None:
            os.environ[COVERAGE_FOLDER] = counts


def load_other(name: str, contract: Contract) -> Target:
    """A target that another one is held against, which follows ``contract``.

    One of ours follows that revision, unless its name asks for another.
    """
    return replace(load_target(name_of_other(name, contract)), name=name)


def name_of_other(name: str, contract: Contract) -> str:
    """The name under which `load_target` gives what `load_other` does."""
    return f"{name}{REVISION_MARK}{contract.name}" if _follows_any(name) else name


def _follows_any(name: str) -> bool:
    """Whether ``name`` is a target of ours, and does not ask for a revision of the contract."""
    buggy = name.startswith((PLANTED_PREFIX, SANITIZED_PREFIX))
    return name in (*OURS, SANITIZED) or (buggy and REVISION_MARK not in name)


def auto_target(contract: Contract = RELEASED) -> Target:
    """The CUDA source where it runs best: on a GPU where that can be had, else emulated."""
    try:
        return _cuda(contract)
    except TargetError:
        return _emulated(contract)
