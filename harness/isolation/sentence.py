"""What a process does not get over, and so ends by: fatal errors, told from those of a launch."""

from __future__ import annotations

from collections.abc import Callable

from ..targets.memory import ShortOfMemory, lacks_memory
from .kinds import OUT_OF_MEMORY, SHORT

_CUDA_KINDS = {
    "illegal memory access": "illegal address",
    "misaligned address": "misaligned address",
    "out of memory": OUT_OF_MEMORY,
    "device-side assert": "device assert",
    "launch timed out": "hang",
    "unspecified launch failure": "launch failure",
}

_ADVICE = ("Search for `cuda", "CUDA kernel errors might be")
"""How what torch says behind any error of CUDA's begins."""


class Doom(BaseException):
    """Passes by everything that makes an outcome of an exception."""

    def __init__(self, kind: str, line: str) -> None:
        super().__init__(line)
        self.kind = kind


def awaited(synchronize: Callable[[], None] | None) -> Callable[[], None]:
    """Waits for what was launched; whatever has gone wrong with it ends the process."""
    if synchronize is None:
        return nothing

    def wait() -> None:
        try:
            synchronize()
        except Exception as error:
            line = _line(error)
            raise Doom(_fatal_kind(line), line) from None

    return wait


def nothing() -> None:
    """What launches that end as they return are waited for with."""


class Sentence:
    """Turns an error that the process does not get over into its end; others pass.

    ``excused`` says of a lack of memory whether the target is not to blame for it.
    """

    def __init__(self, excused: Callable[[], bool]) -> None:
        self._excused = excused

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, ShortOfMemory):
            raise Doom(SHORT, _line(error)) from None
        if isinstance(error, (SystemExit, KeyboardInterrupt)):
            raise Doom("exit", f"{type(error).__name__} {error}".strip()) from None
        if isinstance(error, Exception) and not isinstance(error, ValueError):
            line = _line(error)
            if lacks_memory(error):
                raise Doom(SHORT if self._excused() else OUT_OF_MEMORY, line) from None
            if "CUDA" in line:
                raise Doom(_fatal_kind(line), line) from None


def _line(error: BaseException) -> str:
    line = " ".join(str(error).split())
    for advice in _ADVICE:
        line = line.partition(f" {advice}")[0]
    return line[:400] or type(error).__name__


def _fatal_kind(line: str) -> str:
    named = (kind for words, kind in _CUDA_KINDS.items() if words in line)
    return next(named, "CUDA error" if "CUDA" in line else "device error")
