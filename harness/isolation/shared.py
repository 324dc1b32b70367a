"""Memory that two processes share: files that exist in memory alone."""

from __future__ import annotations

import mmap
import os

import numpy as np

from ..execution.arena import Bytes

Words = memoryview
"""int64s; one of them is read or written several times faster than in an array."""

CASE, STEP, LAUNCH, COUNT, LOADED = range(5)
"""The words in which a process says where it is: case, step, launcher, launches so far, and
whether it has loaded its target."""

PROGRESS_BYTES = 5 * 8
NO_LAUNCH, WRITE, VERIFY = range(3)
LAUNCH_NAMES = ("", "write", "verify")


class SharedMemory:
    """``size`` bytes, all 0 at first, behind a descriptor that another process can map as well.

    Only pages that were touched take memory. Raises OSError.
    """

    def __init__(self, size: int, descriptor: int | None = None) -> None:
        if descriptor is None:
            descriptor = os.memfd_create("kv-canary-fuzz")
            os.ftruncate(descriptor, size)
        self.descriptor = descriptor
        self.size = size
        self._map = mmap.mmap(descriptor, size)
        self.bytes: Bytes = np.frombuffer(self._map, np.uint8)

    @property
    def words(self) -> Words:
        return memoryview(self._map).cast("q")

    def close(self) -> None:
        """Give the descriptor back; the memory stays for as long as somebody looks at it."""
        os.close(self.descriptor)


class Log:
    """What a process prints to its error output, kept in memory."""

    MOST_BYTES = 256 * 1024

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("kv-canary-fuzz-log")

    def text(self) -> str:
        """The last of it."""
        size = os.fstat(self.descriptor).st_size
        start = max(0, size - self.MOST_BYTES)
        return os.pread(self.descriptor, self.MOST_BYTES, start).decode(errors="replace")

    def close(self) -> None:
        os.close(self.descriptor)
