"""The targets that come with the project; the only place of the harness that names kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kv_canary_fuzz.strategies.classify import Domain

from .large import LARGE_PREFIX, large_target
from .target import Target, TargetError, load_module_target, streams_of, target_of

if TYPE_CHECKING:
    from kv_canary_fuzz.kernels.planted import PlantedBug

PLANTED_PREFIX = "planted:"


def _emulated() -> Target:
    from kv_canary_fuzz.kernels import emulated

    return _emulated_target("emulated", emulated.build)


def _planted(name: str) -> Target:
    from kv_canary_fuzz.kernels import planted

    known = [bug.name for bug in planted_bugs()]
    if name not in known:
        raise TargetError(f"no planted bug {name!r}; there are: {', '.join(known)}")
    return _emulated_target(PLANTED_PREFIX + name, lambda: planted.build_planted(name))


def _emulated_target(name: str, build: Callable[[], Any]) -> Target:
    kernels = _built(build)

    def set_schedule(seed: int) -> None:
        kernels.schedule_seed = seed

    return replace(target_of(name, kernels), set_schedule=set_schedule)


def _cuda() -> Target:
    from kv_canary_fuzz.kernels import gpu

    streams = streams_of("cuda", captures=True)
    return replace(target_of("cuda", _built(gpu.build)), device="cuda", streams=streams)


def _built(build: Callable[[], Any]) -> Any:
    """What ``build`` gives. Raises TargetError where this machine cannot build or run it."""
    from kv_canary_fuzz.kernels import errors

    try:
        return build()
    except (errors.CompilerMissing, errors.CompileError, errors.GpuUnavailable) as error:
        raise TargetError(str(error)) from error


def _torch() -> Target:
    from kv_canary_fuzz import reference

    return Target(
        name="torch",
        device="cpu",
        write=reference.launch_canary_write_kernel_torch_reference,
        verify=reference.launch_canary_verify_kernel_torch_reference,
    )


def _scalar() -> Target:
    from kv_canary_fuzz.reference import scalar_model

    return target_of("scalar", scalar_model)


def _sglang_reference() -> Target:
    from .sglang import load_sglang_reference

    write, verify = load_sglang_reference()
    return Target(
        name="sglang-reference",
        device="cpu",
        write=write,
        verify=verify,
        domains=frozenset({Domain.VALID}),
    )


def _sglang() -> Target:
    from .sglang import load_sglang_kernels

    write, verify = load_sglang_kernels()
    return Target(
        name="sglang",
        device="cuda",
        write=write,
        verify=verify,
        domains=frozenset({Domain.VALID}),
        streams=streams_of("cuda", captures=True),
    )


def planted_bugs() -> tuple[PlantedBug, ...]:
    """The bugs that ``planted:NAME`` targets have."""
    from kv_canary_fuzz.kernels import planted

    return planted.planted_bugs()


def load_traced_target() -> tuple[Target, Callable[[], frozenset[int]]]:
    """The emulated kernels, and which of their basic blocks ran since that was last asked.

    Raises TargetError where they cannot be built.
    """
    from kv_canary_fuzz.kernels import emulated

    kernels = _built(lambda: emulated.build(trace_blocks=True))
    return _emulated_target("emulated", lambda: kernels), kernels.take_blocks


def load_limits() -> Any:
    """The kernels that bound the others' speed: ``nothing()`` and ``mix_chain(tokens)``.

    Raises TargetError where they cannot be built or run.
    """
    from kv_canary_fuzz.kernels import limits

    return _built(limits.Limits)


BUILTIN: dict[str, tuple[str, Callable[[], Target]]] = {
    "emulated": ("our CUDA source, run on the CPU", _emulated),
    "cuda": ("our CUDA source on a GPU", _cuda),
    "torch": ("our torch reference", _torch),
    "scalar": ("the contract in plain Python integers", _scalar),
    "sglang": ("the CUDA kernels of an installed sglang, on a GPU", _sglang),
    "sglang-reference": ("the torch reference of an installed sglang", _sglang_reference),
}


def load_target(name: str) -> Target:
    """The target called ``name``: built in, ``planted:BUG``, or a module's dotted name.

    ``large:NAME`` is the target NAME under launches in huge memory, see `large`. ``auto`` is what
    `auto_target` gives. Raises TargetError with one line.
    """
    if name == "auto":
        return auto_target()
    if name.startswith(LARGE_PREFIX):
        return large_target(load_target(name.removeprefix(LARGE_PREFIX)))
    if name.startswith(PLANTED_PREFIX):
        return _planted(name.removeprefix(PLANTED_PREFIX))
    if name in BUILTIN:
        return BUILTIN[name][1]()
    try:
        return load_module_target(name)
    except TargetError as error:
        raise TargetError(f"{error}; built-in targets: {', '.join(BUILTIN)}") from error


def load_reference(name: str) -> Target | None:
    """The target to compare with; None for ``torch``, which the harness runs in batches."""
    return None if name == "torch" else load_target(name)


def auto_target() -> Target:
    """The CUDA source where it runs best: on a GPU where that can be had, else emulated."""
    try:
        return _cuda()
    except TargetError:
        return _emulated()
