"""Who is in a run's folder: the processes of one run, and of no other.

Every process of a run holds a shared lock on a file that names the run, so the folder is free
again when the last of them is gone, however it ended.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from .run_folder import RunFolder

_MOST_BYTES = 100


class FolderTaken(Exception):
    """Another run is in the folder; the message is one line that says what to do."""


def new_run() -> str:
    """A name for a run that this process begins, which no other has."""
    return f"{os.getpid()}-{secrets.token_hex(8)}"


class Tenancy:
    """One process's stay in a folder, until it leaves or ends.

    ``leftovers`` are lines about what an earlier run left there, of which the folder is clear.
    Raises FolderTaken, and OSError where the folder cannot be made or written to.
    """

    def __init__(self, folder: RunFolder, run: str) -> None:
        folder.root.mkdir(parents=True, exist_ok=True)
        self.leftovers: list[str] = []
        self._file = folder.lock.open("a+b", buffering=0)
        try:
            self._enter(folder, run)
        except BaseException:
            self.leave()
            raise

    def leave(self) -> None:
        self._file.close()

    def _enter(self, folder: RunFolder, run: str) -> None:
        if _lock_alone(self._file) and _named_in(self._file) != run:
            self.leftovers = folder.make_way()
            _name(self._file, run, folder)
        fcntl.flock(self._file, fcntl.LOCK_SH)
        other = _named_in(self._file)
        if other != run:  # it was there before, or came between the two locks
            raise _taken(folder, other)


@contextmanager
def staying(folder: RunFolder, run: str) -> Iterator[Tenancy]:
    """A Tenancy that ends with the block."""
    tenancy = Tenancy(folder, run)
    try:
        yield tenancy
    finally:
        tenancy.leave()


def check_free(folder: RunFolder) -> None:
    """Raise FolderTaken where a run is in the folder; nothing in it is touched."""
    try:
        file = folder.lock.open("rb", buffering=0)
    except OSError:
        return
    with file:
        if not _lock_alone(file):
            raise _taken(folder, _named_in(file))


def run_in(folder: RunFolder) -> str:
    """The run that is, or was the last to be, in the folder; empty where there was none."""
    try:
        with folder.lock.open("rb", buffering=0) as file:
            return _named_in(file)
    except OSError:
        return ""


def _taken(folder: RunFolder, run: str) -> FolderTaken:
    return FolderTaken(
        f"run folder {folder.root} is in use by another run, that of process "
        f"{run.partition('-')[0]}; "
        "wait for it, or give another folder (--out, in pytest --kv-out)"
    )


def _lock_alone(file: BinaryIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _named_in(file: BinaryIO) -> str:
    return os.pread(file.fileno(), _MOST_BYTES, 0).decode(errors="replace")


def _name(file: BinaryIO, run: str, folder: RunFolder) -> None:
    """Replace what the file says. Raises OSError, which names it."""
    try:
        file.truncate(0)
        file.write(run.encode())
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(folder.lock)) from error
