"""Reading files that may be damaged or hostile: within limits, and one line of what is wrong."""

from __future__ import annotations

import re
from pathlib import Path

_MOST_CHARACTERS = 400


class Unreadable(Exception):
    """A file that cannot be read; the message says why, and does not name it."""


def read_bounded(path: Path, most_bytes: int) -> bytes:
    """The file's bytes, at most that many, however long it is or grows. Raises Unreadable."""
    try:
        with path.open("rb") as file:
            data = file.read(most_bytes + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise Unreadable(f"cannot be read: {reason}") from None
    if len(data) > most_bytes:
        raise Unreadable(f"is longer than the limit of {most_bytes} bytes")
    return data


def one_line(text: str) -> str:
    """``text`` without control characters, cut where it goes on for too long."""
    printable = re.sub(
        r"[^\x20-\x7e\xa1-\ud7ff\ue000-\uffff\U00010000-\U0010ffff]",
        lambda match: repr(match[0])[1:-1],
        text,
    )
    if len(printable) <= _MOST_CHARACTERS:
        return printable
    return f"{printable[:_MOST_CHARACTERS]}..."
