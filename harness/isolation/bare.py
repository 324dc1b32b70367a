"""Cases as a process reads them that finds their numbers in memory: the shapes, and no numbers.

Most of the time of reading a case goes to its columns and contents, which are laid out already.
"""

from __future__ import annotations

from msgspec import Raw

from kv_canary_fuzz.strategies.case import (
    Case,
    Column,
    CorruptStep,
    Source,
    VerifyStep,
    WriteStep,
)


class BareColumn(Column, frozen=True, gc=False):
    values: Raw = Raw()  # type: ignore[assignment]
    tail: Raw = Raw()  # type: ignore[assignment]


class BareSource(Source, frozen=True, gc=False):
    content: Raw = Raw()  # type: ignore[assignment]


class BareWrite(WriteStep, frozen=True, tag="write", tag_field="step", kw_only=True, gc=False):
    write_offsets: BareColumn
    write_seed_slot_indices: BareColumn
    input_ids: BareColumn
    positions: BareColumn
    out_cache_loc: BareColumn
    expected_input_tokens: BareColumn | None = None
    expected_input_positions: BareColumn | None = None


class BareVerify(VerifyStep, frozen=True, tag="verify", tag_field="step", kw_only=True, gc=False):
    verify_slot_indices: BareColumn
    verify_expected_tokens: BareColumn
    verify_expected_positions: BareColumn
    verify_prev_slot_indices: BareColumn


class BareCase(Case, frozen=True, gc=False):
    """A case whose columns and contents are not read."""

    canary_buf: Raw = Raw()  # type: ignore[assignment]
    violation_ring: Raw = Raw()  # type: ignore[assignment]
    real_kv_sources: tuple[BareSource, ...] = ()
    steps: tuple[BareWrite | BareVerify | CorruptStep, ...] = ()
