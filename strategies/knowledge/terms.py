"""Symbolic hash values: what is known about a field without computing any hash.

A term is a small integer; equal terms are equal values. Two different terms are different values
(a coincidence of 64-bit hashes aside) unless one is doubtful: then nothing is known.
"""

from __future__ import annotations

_MASK = 2**64 - 1

Key = tuple[object, ...]


class Terms:
    """An interning table of terms."""

    def __init__(self) -> None:
        self._ids: dict[Key, int] = {}
        self._numbers: dict[int, int] = {}
        self._xors: dict[int, tuple[int, int]] = {}
        self._doubtful: set[int] = set()
        self.anchor = self.symbol("anchor")
        self.zero = self.number(0)

    def symbol(self, *key: object) -> int:
        """The term with this name; each name is another value."""
        return self._ids.setdefault(key, len(self._ids))

    def number(self, value: int, *, doubtful: bool = False) -> int:
        """A 64-bit number that was stored as such.

        It is doubtful where a person may have chosen it, who may have chosen a true hash.
        """
        value &= _MASK
        term = self.symbol("number", value)
        self._numbers[term] = value
        if doubtful:
            self._doubtful.add(term)
        return term

    def link(self, prev_hash: int, token: int, position: int) -> int:
        """The chain hash that the successor of a slot with these fields stores."""
        if prev_hash == self.zero and token == 0 and position == 0:
            return self.zero
        term = self.symbol(prev_hash, token, position)
        if prev_hash in self._doubtful:
            self._doubtful.add(term)
        return term

    def xor(self, term: int, mask: int) -> int:
        """The term with the bits of a 64-bit mask flipped."""
        if term in self._numbers:
            return self.number(self._numbers[term] ^ mask, doubtful=term in self._doubtful)
        base, before = self._xors.get(term, (term, 0))
        mask ^= before
        if mask == 0:
            return base
        flipped = self.symbol("xor", base, mask)
        self._xors[flipped] = (base, mask)
        if base in self._doubtful:
            self._doubtful.add(flipped)
        return flipped

    def differ(self, first: int, second: int) -> bool | None:
        """Whether the values differ; None where that cannot be known."""
        if first == second:
            return False
        if first in self._numbers and second in self._numbers:
            return True
        if first in self._doubtful or second in self._doubtful:
            return None
        return True
