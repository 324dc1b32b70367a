"""Damage to a reproducer's file: to its bytes, and to the JSON in it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

TOKENS = (
    *(b"null", b"true", b"[]", b"{}", b'""', b"-1", b"0", b"1e999", b"-0", b"1.5", b"\\u0000"),
    *(str(2**62).encode(), str(-(2**63) - 1).encode(), b"9" * 5000, b"[" * 3000, b'{"a":' * 3000),
    *(b"\xff\xfe", b"\xed\xa0\x80", b'"\\ud800"', b",", b":", b'"', b"\x00"),
)

NUMBERS = (
    *(-1, 0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 255, 256, 4095, 4096, 65535, 65536),
    *(2**20 - 1, 2**20, 2**20 + 1, 2**23, 2**25, 2**28 - 32, 2**28, 2**31 - 1, 2**31, 2**32),
    *(2**40, 2**40 + 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**31), -(2**63), 10**400),
)
OTHERS = (
    *(None, True, False, 0.5, -0.0, "", "x", "a" * 5000, "\ud800", "\x00", "\x1b[2J\n", [], {}),
    *([0] * 5000, [[]] * 5000, {"values": [1] * 300, "length": 300}, {"length": 2**20}),
    *("large:" * 600 + "scalar", "os.path", "..", "sglang-reference:\x00", "planted:", "x@y"),
)

Node = tuple[Any, Any]
"""A list or an object of the JSON, and an index or key of it."""


def mutated(data: bytes, rng: random.Random) -> bytes:
    """One to four changes of the bytes: bits, cuts, repeats, tokens in place of numbers."""
    for _ in range(rng.randint(1, 4)):
        at, to = sorted(rng.randrange(len(data) + 1) for _ in range(2))
        to = min(to, at + 60)
        data = rng.choice(
            (
                data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :],
                data[:at] + data[to:],
                data[:at] + data[at:to] * 2 + data[to:],
                data[:at] + rng.choice(TOKENS) + data[to:],
                _digits_replaced(data, rng),
            )
        )
    return data


def restructured(data: bytes, rng: random.Random) -> bytes:
    """One to three changes of the values: fields deleted, doubled, swapped, of other types."""
    value = json.loads(data)
    for _ in range(rng.randint(1, 3)):
        rng.choice(_CHANGES)(value, rng)
    text = json.dumps(value).replace('"twin of ', '"')
    return text.encode(errors="surrogatepass")


def _digits_replaced(data: bytes, rng: random.Random) -> bytes:
    places = [at for at in range(len(data)) if data[at : at + 1].isdigit()]
    if not places:
        return data
    at = rng.choice(places)
    return data[:at] + rng.choice(TOKENS) + data[at + 1 :]


def _nodes(value: Any) -> list[Node]:
    found: list[Node] = []
    left = [value]
    while left:
        one = left.pop()
        keys = list(one) if isinstance(one, dict) else range(len(one))
        found += [(one, key) for key in keys]
        left += [one[key] for key in keys if isinstance(one[key], dict | list)]
    return found


def _any(value: Any, rng: random.Random) -> Node:
    nodes = _nodes(value)
    return rng.choice(nodes) if nodes else ([0], 0)


def _delete(value: Any, rng: random.Random) -> None:
    inside, key = _any(value, rng)
    del inside[key]


def _double(value: Any, rng: random.Random) -> None:
    inside, key = _any(value, rng)
    if isinstance(inside, list):
        inside[key:key] = [inside[key]] * rng.choice((1, 4, 70, 300))
    else:
        inside[f"twin of {key}"] = inside[key]


def _swap(value: Any, rng: random.Random) -> None:
    (first, a), (second, b) = _any(value, rng), _any(value, rng)
    kept = json.loads(json.dumps([first[a], second[b]]))
    first[a] = kept[1]
    second[b] = kept[0]


def _renumber(value: Any, rng: random.Random) -> None:
    numbers = [node for node in _nodes(value) if type(node[0][node[1]]) is int]
    if numbers:
        inside, key = rng.choice(numbers)
        inside[key] = rng.choice((*NUMBERS, inside[key] + 1, inside[key] - 1))


def _retype(value: Any, rng: random.Random) -> None:
    inside, key = _any(value, rng)
    inside[key] = rng.choice((*OTHERS, *NUMBERS))


def _stretch(value: Any, rng: random.Random) -> None:
    """All columns of one length get another: a launch that is larger, and well-formed."""
    lengths = [node for node in _nodes(value) if node[1] == "length"]
    if not lengths:
        return
    inside, key = rng.choice(lengths)
    old, new = inside[key], rng.choice(NUMBERS)
    if isinstance(old, int):
        for inside, key in lengths:
            if isinstance(inside[key], int) and inside[key] - old in (0, 1):
                inside[key] += new - old


_CHANGES: tuple[Callable[[Any, random.Random], None], ...] = (
    _delete,
    _double,
    _swap,
    _renumber,
    _renumber,
    _retype,
    _stretch,
    _stretch,
)
