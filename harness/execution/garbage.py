"""How often Python looks for garbage while cases come and go by the thousand."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

GARBAGE_THRESHOLD = 200_000
"""Objects between collections: cases and what is made of them have no cycles."""


@contextmanager
def rare_collections() -> Iterator[None]:
    """Within, collections are rare: at the usual threshold they take a twelfth of the time."""
    usual = gc.get_threshold()
    gc.set_threshold(GARBAGE_THRESHOLD, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)
