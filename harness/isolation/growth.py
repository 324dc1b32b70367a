"""How much memory a process has taken since it was new."""

from __future__ import annotations

import mmap
from contextlib import suppress
from pathlib import Path

MOST_GROWTH = 2**30
"""Bytes that a process may have taken when it has answered; then it leaks, and goes."""

_DATA = 5


class Growth:
    """Watches the memory that a process has for its data."""

    def __init__(self, process: int) -> None:
        self._process = process
        self._first = data_bytes(process)

    def passed(self) -> bool:
        """Whether the process has taken so much that those behind it had better get a new one."""
        return data_bytes(self._process) - self._first > MOST_GROWTH


def data_bytes(process: int) -> int:
    """The memory for the data of a process, touched or not; 0 where it is gone."""
    with suppress(OSError):
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[_DATA])
        return pages * mmap.PAGESIZE
    return 0
