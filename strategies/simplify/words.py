"""A content's 64-bit little-endian words, signed: read, and written back as patches.

Every field, hash and fold of the contract is made of aligned words, so contents are simplified by
the word, and a canonical content has one patch for each run of words that its base does not have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from msgspec.structs import replace

from ..case import Case, Source
from ..content import Content, Patch, expand_words

WORD_BYTES = 8
MAX_PATCH_WORDS = 512

Words = dict[int, int]
"""Signed words by index: word i is at bytes 8 i to 8 i + 7."""

CANARY = "canary_buf"
RING = "violation_ring"


def signed(number: int) -> int:
    """A number modulo 2**64, as an int64."""
    number &= 2**64 - 1
    return number - 2**64 if number >= 2**63 else number


def base_word(content: Content, index: int) -> int:
    """A word before patches."""
    if content.seed is None:
        return signed(content.fill * 0x0101010101010101)
    drawn = expand_words(np.array([content.seed], np.uint64), np.array([index], np.uint64))
    return signed(int(drawn[0]))


def patched_words(content: Content) -> Words:
    """Every word that a patch touches."""
    touched: dict[int, bytearray] = {}
    for patch in content.patches:
        data = bytes.fromhex(patch.hex)
        for place, byte in enumerate(data, patch.offset):
            index = place // WORD_BYTES
            if index not in touched:
                raw = base_word(content, index).to_bytes(WORD_BYTES, "little", signed=True)
                touched[index] = bytearray(raw)
            touched[index][place % WORD_BYTES] = byte
    return {
        index: int.from_bytes(raw, "little", signed=True) for index, raw in sorted(touched.items())
    }


def read_words(content: Content, indices: Iterable[int]) -> Words:
    patched = patched_words(content)
    return {
        index: patched[index] if index in patched else base_word(content, index)
        for index in indices
    }


def with_words(base: Content, words: Mapping[int, int]) -> Content:
    """The base (its own patches apart) under ``words``, in canonical form."""
    bare = replace(base, patches=())
    kept = sorted(index for index, word in words.items() if word != base_word(bare, index))
    patches: list[Patch] = []
    start = 0
    for place in range(1, len(kept) + 1):
        run = place - start
        if place == len(kept) or kept[place] != kept[start] + run or run == MAX_PATCH_WORDS:
            raw = b"".join(
                words[index].to_bytes(WORD_BYTES, "little", signed=True)
                for index in kept[start:place]
            )
            patches.append(Patch(offset=kept[start] * WORD_BYTES, hex=raw.hex()))
            start = place
    return replace(bare, patches=tuple(patches))


def source_region(index: int) -> str:
    return f"real_kv_sources[{index}].tensor"


def region_names(case: Case) -> tuple[str, ...]:
    """The regions that have a content."""
    return (RING, CANARY, *(source_region(k) for k in range(len(case.real_kv_sources))))


def source_index(region: str) -> int | None:
    """Which source's tensor the name means; None for any other region."""
    head, _, rest = region.partition("[")
    return int(rest.partition("]")[0]) if head == "real_kv_sources" else None


def content_of(case: Case, region: str) -> Content:
    k = source_index(region)
    if k is not None:
        return case.real_kv_sources[k].content
    return case.canary_buf if region == CANARY else case.violation_ring


def put_content(case: Case, region: str, content: Content) -> Case:
    k = source_index(region)
    if k is None:
        return replace(case, **{region: content})
    return replace_source(case, k, replace(case.real_kv_sources[k], content=content))


def replace_source(case: Case, k: int, source: Source) -> Case:
    sources = case.real_kv_sources
    return replace(case, real_kv_sources=(*sources[:k], source, *sources[k + 1 :]))


def region_size(case: Case, region: str) -> int:
    """Bytes."""
    k = source_index(region)
    if k is not None:
        return case.real_kv_sources[k].rows * case.real_kv_sources[k].row_bytes
    if region == CANARY:
        return case.num_slots * case.slot_stride_bytes
    return case.ring_capacity * 64
