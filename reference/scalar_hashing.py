"""Section 3 of the kv-canary contract in plain Python integers, for the scalar model alone.

Every value is an unsigned 64-bit integer; arguments may be any integers and count modulo 2**64.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

MASK = (1 << 64) - 1

_FIRST_FACTOR = 0xBF58476D1CE4E5B9
_SECOND_FACTOR = 0x94D049BB133111EB


def splitmix64(value: int) -> int:
    """The finaliser of splitmix64, without its increment."""
    value &= MASK
    value = (value ^ value >> 30) * _FIRST_FACTOR & MASK
    value = (value ^ value >> 27) * _SECOND_FACTOR & MASK
    return value ^ value >> 31


def mix3(first: int, second: int, third: int) -> int:
    """The chain link of a slot that stores (prev_hash, token, position)."""
    inner = splitmix64(first) ^ second & MASK
    return splitmix64(splitmix64(inner) ^ third & MASK)


def fold(data: bytes) -> int:
    """The hash of one source's bytes, a multiple of eight of them."""
    return _absorb(word for (word,) in struct.iter_unpack("<Q", data))


def fold_sources(datas: Iterable[bytes]) -> int:
    """The real-KV hash of a slot whose sources hold ``datas``, in order."""
    return _absorb(map(fold, datas))


def _absorb(words: Iterable[int]) -> int:
    total = 0
    for word in words:
        total = splitmix64(total ^ word)
    return total
