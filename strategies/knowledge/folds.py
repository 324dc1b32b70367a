"""Symbolic real-KV hashes: which slots' folded bytes are alike, and which have changed."""

from __future__ import annotations

from kv_canary_fuzz.reference.enums import RealKvHashMode

from ..case import Case, Flip
from ..grammar.corruptions import folded_bytes
from ..regions import read
from .terms import Terms


class Folds:
    """The real-KV hash of each slot as a term, while bytes of the sources are flipped.

    A source of seeded bytes is different in every slot, a filled one alike in all; where a source
    has patches, its bytes themselves are compared. All folded bytes zero gives hash zero.
    """

    def __init__(self, case: Case, terms: Terms) -> None:
        self._case, self._terms = case, terms
        hashed = case.real_kv_hash_mode != RealKvHashMode.NONE
        self._sources = case.real_kv_sources if hashed else ()
        self._flips: dict[int, dict[tuple[int, int], int]] = {}
        contents = [source.content for source in self._sources]
        self._patched = any(content.patches for content in contents)
        self._alike = all(content.seed is None for content in contents)
        self._all_zero = self._alike and not any(content.fill for content in contents)

    def flip(self, edit: Flip) -> None:
        """Note a flip in a source; bytes that are folded for no slot are of no account."""
        index = int(edit.region[len("real_kv_sources[")])
        if index >= len(self._sources):
            return
        source = self._sources[index]
        row, column = divmod(edit.offset, source.row_bytes)
        place, byte = divmod(column, source.num_bytes_per_token)
        if place >= source.page_size or byte >= folded_bytes(source, self._case.real_kv_hash_mode):
            return
        flips = self._flips.setdefault(row * source.page_size + place, {})
        mask = flips.pop((index, byte), 0) ^ edit.mask
        if mask:
            flips[index, byte] = mask

    def of(self, slot: int) -> int:
        """The term of a slot's real-KV hash now."""
        terms = self._terms
        if not self._sources:
            return terms.zero
        if self._patched:
            return self._of_bytes(slot)
        flips = self._flips.get(slot)
        if self._all_zero and not flips:
            return terms.zero
        who = "any" if self._alike else slot
        return terms.symbol("fold", who, frozenset(flips.items()) if flips else None)

    def _of_bytes(self, slot: int) -> int:
        parts = []
        for index, source in enumerate(self._sources):
            row, place = divmod(slot, source.page_size)
            start = row * source.row_bytes + place * source.num_bytes_per_token
            count = folded_bytes(source, self._case.real_kv_hash_mode)
            data = bytearray(read(source.content, start, count))
            for (at, byte), mask in self._flips.get(slot, {}).items():
                if at == index:
                    data[byte] ^= mask
            parts.append(bytes(data))
        if not any(any(part) for part in parts):
            return self._terms.zero
        return self._terms.symbol("bytes", *parts)
