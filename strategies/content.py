"""Bytes that are described instead of stored, and the generator that expands them for ever alike.

The generator is splitmix64's finaliser over a counter: little-endian word ``i`` of seed ``s`` is
``finalise(s + (i + 1) * 0x9E3779B97F4A7C15)``. It must never change: old reproducers depend on it.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
import numpy.typing as npt
from msgspec import Meta, Struct

Seed = Annotated[int, Meta(ge=0)]
"""Below 2**64: msgspec cannot state that bound, so `check_case` does."""


Size = Annotated[int, Meta(ge=0, le=2**40)]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLY_1 = np.uint64(0xBF58476D1CE4E5B9)
_MULTIPLY_2 = np.uint64(0x94D049BB133111EB)


class Patch(Struct, frozen=True, forbid_unknown_fields=True):
    """Bytes stored over a description, from ``offset`` on; ``hex`` holds two digits a byte."""

    offset: Size
    hex: Annotated[str, Meta(pattern="^([0-9a-f]{2})+$", max_length=8192)]


class Content(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A region's bytes: the expansion of ``seed``, or ``fill`` repeated, under ``patches``."""

    fill: Annotated[int, Meta(ge=0, le=255)] = 0
    seed: Seed | None = None
    patches: Annotated[tuple[Patch, ...], Meta(max_length=4096)] = ()


def expand_words(
    seeds: npt.NDArray[np.uint64], counters: npt.NDArray[np.uint64]
) -> npt.NDArray[np.uint64]:
    """Word ``counters[k]`` of the expansion of ``seeds[k]``, for every k at once."""
    x = (counters + np.uint64(1)) * _GOLDEN
    x += seeds
    x ^= x >> np.uint64(30)
    x *= _MULTIPLY_1
    x ^= x >> np.uint64(27)
    x *= _MULTIPLY_2
    x ^= x >> np.uint64(31)
    return x
