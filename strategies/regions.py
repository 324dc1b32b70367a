"""A few bytes of a described region, and the slot fields in them."""

from __future__ import annotations

from kv_canary_fuzz.reference.consts import CANARY_SLOT_BYTES

from .case import Case
from .content import Content

_MASK = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15

Fields = tuple[int, int, int, int]


def word(seed: int, index: int) -> int:
    """Word ``index`` of a seed's expansion (see `content`), in plain integers."""
    x = seed + (index + 1) * _GOLDEN & _MASK
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & _MASK
    return x ^ x >> 31


def read(content: Content, offset: int, count: int) -> bytes:
    """Bytes ``offset .. offset + count - 1`` of a region with this content."""
    if content.seed is None:
        data = bytes((content.fill,)) * count
    else:
        first, last = offset // 8, -(-(offset + count) // 8)
        words = b"".join(word(content.seed, i).to_bytes(8, "little") for i in range(first, last))
        data = words[offset - first * 8 : offset - first * 8 + count]
    if not content.patches:
        return data
    patched = bytearray(data)
    for patch in content.patches:
        raw = bytes.fromhex(patch.hex)
        start, stop = max(offset, patch.offset), min(offset + count, patch.offset + len(raw))
        if start < stop:
            patched[start - offset : stop - offset] = raw[
                start - patch.offset : stop - patch.offset
            ]
    return bytes(patched)


def slot_fields(case: Case, slot: int) -> Fields:
    """(token, position, prev_hash, real_kv_hash) of a slot before the first step, as int64."""
    data = read(case.canary_buf, slot * case.slot_stride_bytes, CANARY_SLOT_BYTES)
    token, position, prev_hash, real_kv_hash = (
        int.from_bytes(data[k : k + 8], "little", signed=True) for k in (0, 8, 16, 24)
    )
    return token, position, prev_hash, real_kv_hash
