"""Memory that the harness asks for: where there is none, no target is to blame."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_WORDS = ("out of memory", "can't allocate memory")


class ShortOfMemory(BaseException):
    """The harness got no memory for what is its own.

    Passes by everything that makes an outcome of an exception.
    """


def lacks_memory(error: BaseException) -> bool:
    """Whether an error is that memory could not be had, of the host or of a device."""
    return isinstance(error, MemoryError) or any(words in str(error) for words in _WORDS)


def pass_on_lack(error: BaseException, purpose: str) -> None:
    """Raise ShortOfMemory where ``error`` is that there was no memory for ``purpose``."""
    if lacks_memory(error):
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ShortOfMemory(f"{purpose}: {reason}") from error


@contextmanager
def own_memory(purpose: str) -> Iterator[None]:
    """Within, memory is for ``purpose``. Raises ShortOfMemory where it cannot be had."""
    try:
        yield
    except Exception as error:
        pass_on_lack(error, purpose)
        raise
