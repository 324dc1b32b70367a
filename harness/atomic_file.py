"""Files that are whole or absent, whatever happens while they are written."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

TEMPORARY_PREFIX = ".kv-canary-"
TEMPORARY_SUFFIX = ".tmp"


def write_atomically(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Write ``data`` beside ``path`` and rename it there, once it is on the disk.

    A file that is not ``durable`` outlives its process but perhaps not a power cut, and costs no
    wait for the disk. Raises OSError; then ``path`` is as it was. What a killed process leaves
    behind has the prefix and suffix above and is never read.
    """
    name = f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}{TEMPORARY_SUFFIX}"
    temporary = path.with_name(name)
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
