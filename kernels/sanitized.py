"""The emulated build under the host compiler's address and undefined-behaviour sanitizers.

Their runtime has to be loaded before anything else, so such a build runs only in a process that
was started with `environment`. There, the first fault ends the process, with a report on its error
output that names the line of the source.
"""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from .build import find_compiler
from .emulated import EmulatedKernels, build_path, load
from .errors import CompilerMissing
from .source import Patch

FLAGS = (
    "-g",
    "-O0",
    "-fno-omit-frame-pointer",
    "-fsanitize=address,undefined",
    "-fno-sanitize=vptr",
    "-fno-sanitize-recover=all",
)
RUNTIME = "libasan.so"
REPORT_STATUS = 86

_ADDRESS_OPTIONS = (
    "detect_leaks=0",
    "detect_stack_use_after_return=0",
    "allocator_may_return_null=1",
    f"exitcode={REPORT_STATUS}",
)
_UNDEFINED_OPTIONS = ("print_stacktrace=1", f"exitcode={REPORT_STATUS}")


def environment() -> dict[str, str]:
    """What a process needs that runs such a build.

    Raises CompilerMissing where the compiler has no such runtime.
    """
    return {
        "LD_PRELOAD": str(_runtime(find_compiler())),
        "ASAN_OPTIONS": ":".join(_ADDRESS_OPTIONS),
        "UBSAN_OPTIONS": ":".join(_UNDEFINED_OPTIONS),
    }


def build(patches: Sequence[Patch] = ()) -> EmulatedKernels | None:
    """Compile the source (or take it from the cache); load it where this process can run it.

    None elsewhere. Raises CompilerMissing, CompileError or PatchError.
    """
    environment()
    built = build_path(patches=patches, flags=FLAGS)
    return None if _poisoner() is None else load(built)


def fence(address: int, size: int, open_parts: Iterable[tuple[int, int]]) -> None:
    """Let only ``open_parts`` (offset, bytes) of ``size`` bytes be touched, in such a process."""
    poison, allow = _poisoner() or (None, None)
    if poison is None or allow is None:
        return
    poison(address, size)
    for offset, count in open_parts:
        allow(address + offset, count)


@cache
def _poisoner() -> tuple[ctypes._NamedFuncPointer, ctypes._NamedFuncPointer] | None:
    """The runtime's two functions, where this process has it."""
    loaded = ctypes.CDLL(None)
    found = []
    for name in ("__asan_poison_memory_region", "__asan_unpoison_memory_region"):
        function = getattr(loaded, name, None)
        if function is None:
            return None
        function.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
        function.restype = None
        found.append(function)
    return found[0], found[1]


@cache
def _runtime(compiler: tuple[str, ...]) -> Path:
    """Where the sanitizers' runtime is. Raises CompilerMissing where there is none."""
    shown = subprocess.run(
        [*compiler, f"-print-file-name={RUNTIME}"], capture_output=True, text=True, check=False
    )
    path = Path(shown.stdout.strip())
    if not path.is_absolute() or not path.exists():
        raise CompilerMissing(
            f"{compiler[0]} has no {RUNTIME}, which a sanitized build needs: install g++ with its "
            "sanitizers and set CXX to it"
        )
    return path.resolve()
