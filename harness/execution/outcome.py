"""What running one step did, apart from the bytes it left behind."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.int64]
"""Violation rows, [n, 8], in no particular order."""

NO_ROWS: Rows = np.empty((0, 8), np.int64)


class Raised(NamedTuple):
    """An exception that a launch ended in; a launch's exception is part of its outcome."""

    kind: str
    message: str

    @classmethod
    def of(cls, error: BaseException) -> Raised:
        return cls(type(error).__name__, str(error))
