"""Files that are whole or absent, whatever happens while they are written."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

TEMPORARY_PREFIX = ".kv-canary-"
TEMPORARY_SUFFIX = ".tmp"


def write_atomically(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Write ``data`` beside ``path`` and rename it there, once it is on the disk.

    A file that is not ``durable`` outlives its process but perhaps not a power cut, and costs no
    wait for the disk. What is no regular file, such as a pipe, is written to as it is. Raises
    OSError, which names ``path``; then ``path`` is as it was. What a killed process leaves behind
    has the prefix and suffix above, is never read, and is what `sweep` deletes.
    """
    with _naming(path):
        if path.exists() and not path.is_file():
            path.write_bytes(data)
            return
        temporary, descriptor = _temporary_beside(path)
        try:
            with open(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                if durable:
                    os.fsync(file.fileno())
                temporary.replace(path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise


def check_writable(path: Path) -> None:
    """Raise the OSError, naming ``path``, that writing a few bytes there would raise now.

    What would be written is in a temporary file, so ``path`` stays as it is.
    """
    with _naming(path):
        if path.exists() and not path.is_file():
            path.open("ab").close()
            return
        temporary, descriptor = _temporary_beside(path)
        try:
            with open(descriptor, "wb") as file:
                file.write(b"kv-canary-fuzz\n")
        finally:
            temporary.unlink()


def append(path: Path, data: bytes) -> None:
    """Add ``data`` to a file that others add to as well. Raises OSError, which names it."""
    with _naming(path), path.open("ab") as file:
        file.write(data)


def sweep(folder: Path) -> list[Path]:
    """Delete what killed processes left of files in ``folder``, and nothing that is being written.

    A file that is new and empty may go before its writer has locked it; then that makes another.
    What cannot be deleted stays, and does no harm.
    """
    swept = []
    for path in sorted(folder.glob(f"{TEMPORARY_PREFIX}*{TEMPORARY_SUFFIX}")):
        with suppress(OSError), path.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
            swept.append(path)
    return swept


def _temporary_beside(path: Path) -> tuple[Path, int]:
    """A new empty file and its descriptor, which locks it, so that `sweep` leaves it alone."""
    while True:
        temporary = path.with_name(f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}{TEMPORARY_SUFFIX}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        with suppress(OSError):  # where files cannot be locked, `sweep` deletes none
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return temporary, descriptor
        os.close(descriptor)  # swept between the two


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """OSErrors name ``path``, which writing to a descriptor would not."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(path)) from error


def fault_of(error: OSError) -> str:
    """The file and what is wrong with it, in one line. An error that names no file is raised."""
    if error.filename is None:
        raise error
    return f"{error.filename}: {error.strerror}"


@contextmanager
def noting(faults: list[str]) -> Iterator[None]:
    """What cannot be written within is a line of ``faults``, and no exception."""
    try:
        yield
    except OSError as error:
        faults.append(fault_of(error))
