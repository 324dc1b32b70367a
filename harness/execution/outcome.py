"""What running one step did, apart from the bytes it left behind."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.int64]
"""Violation rows, [n, 8], in no particular order."""

MOST_NAME = 200
"""Characters of the name of an exception's type, which is part of a signature."""

NO_ROWS: Rows = np.empty((0, 8), np.int64)


class Raised(NamedTuple):
    """An exception that a launch ended in; a launch's exception is part of its outcome."""

    kind: str
    message: str

    @classmethod
    def of(cls, error: BaseException) -> Raised:
        return cls(type(error).__name__[:MOST_NAME], str(error))


CRASH = "crash: "
"""How the signature of a case that ends its process begins."""


class Death(NamedTuple):
    """The end of the process that ran a launch, which is then the launch's outcome.

    ``kind`` is how it ended ("segfault", "hang"), ``launch`` is "write" or "verify", ``place``
    the line of the source where a sanitizer named one, ``report`` what the process said at last.
    """

    kind: str
    launch: str
    place: str = ""
    report: tuple[str, ...] = ()

    @property
    def signature(self) -> str:
        """What two deaths of the same bug share."""
        where = f" at {self.place}" if self.place else ""
        return f"{CRASH}{self.kind} in {self.launch or 'no launch'}{where}"
