"""The Case: one test of a pair of kv-canary implementations, as a value.

A case holds the state before the first launch and a list of steps. It has no tensors, so it can be
compared, stored, shrunk and run anywhere; the harness lays it out in memory. Field names are those
of the contract; a field that the contract gives as a tensor is here the numbers in it.
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from msgspec import Meta, Struct

from .content import Content, Seed, Size

Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Numbers = Annotated[tuple[Int64, ...], Meta(max_length=65536)]


class Column(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An int64 array of ``length``: ``values`` first, ``tail`` last, ``fill`` between them.

    ``len(values) + len(tail) <= length``; a case with a column that breaks this is malformed.
    """

    values: Numbers = ()
    length: Size = 0
    fill: Int64 = 0
    tail: Numbers = ()


class Source(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A real-KV source: a uint8 tensor [rows, row_bytes] and how slots lie in it.

    ``row_bytes`` is the tensor's width, so ``row_bytes - page_size * num_bytes_per_token`` bytes at
    the end of each row are padding. Between two rows lie ``row_gap`` more bytes, which belong to
    nobody, as where the tensor is one layer's rows in a buffer of all layers. ``content``, and
    whatever else names a byte of the source by its offset, counts the bytes of the rows alone.
    """

    rows: Size
    row_bytes: Size
    page_size: Int64
    num_bytes_per_token: Int64
    read_bytes: Int64
    content: Content = Content()
    row_gap: Size = 0

    @property
    def row_step(self) -> int:
        """Bytes from the start of a row to the start of the next."""
        return self.row_bytes + self.row_gap

    @property
    def span(self) -> int:
        """Bytes from the start of the first row to the end of the last."""
        return self.rows * self.row_step - self.row_gap if self.rows else 0


FaultKind = Literal[
    "too_many_sources",
    "not_contiguous",
    "rank",
    "expected_missing",
    "expected_unwanted",
    "dtype",
    "shape",
    "device",
    "misaligned",
    "slot_stride",
    "short_source",
    "hash_mode",
    "source_field",
]


class Fault(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One way of making a launch illegal (section 7), applied when the step's tensors are made.

    ``tensor`` is the name that a refusal's message uses, where the kind needs one; what ``amount``
    means is said beside each kind in `faults`.
    """

    kind: FaultKind
    tensor: Annotated[str, Meta(max_length=64)] = ""
    amount: Int64 = 0


Faults = Annotated[tuple[Fault, ...], Meta(max_length=8)]


class WriteStep(
    Struct,
    frozen=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag="write",
    tag_field="step",
):
    """One write launch. The capacity is ``write_seed_slot_indices.length``."""

    write_offsets: Column
    write_seed_slot_indices: Column
    write_num_valid_reqs: Int32
    input_ids: Column
    positions: Column
    out_cache_loc: Column
    expected_input_tokens: Column | None = None
    expected_input_positions: Column | None = None
    enable_write_input_assert: bool = False
    enable_chain_position_assert: Int32 = 0
    kernel_kind: Int32 = 0
    faults: Faults = ()


class VerifyStep(
    Struct,
    frozen=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag="verify",
    tag_field="step",
):
    """One verify launch. The capacity is ``verify_slot_indices.length``."""

    verify_slot_indices: Column
    verify_expected_tokens: Column
    verify_expected_positions: Column
    verify_prev_slot_indices: Column
    verify_num_valid: Int32
    enable: Int32 = 1
    check_verify_expected_token: bool = False
    kernel_kind: Int32 = 0
    faults: Faults = ()


class Flip(Struct, frozen=True, forbid_unknown_fields=True, tag="flip", tag_field="edit"):
    """XOR one byte of ``canary_buf`` or of a source's tensor with ``mask``."""

    region: Annotated[str, Meta(pattern=r"^(canary_buf|real_kv_sources\[[0-9]\]\.tensor)$")]
    offset: Size
    mask: Annotated[int, Meta(ge=1, le=255)]


class SwapSlots(Struct, frozen=True, forbid_unknown_fields=True, tag="swap", tag_field="edit"):
    """Exchange the 32 canary bytes of two slots."""

    first: Size
    second: Size


Edit = Flip | SwapSlots


class CorruptStep(
    Struct,
    frozen=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag="corrupt",
    tag_field="step",
):
    """Damage done to the state between two launches, the same on both sides."""

    edits: Annotated[tuple[Edit, ...], Meta(max_length=256)] = ()


Step = WriteStep | VerifyStep | CorruptStep

Launching = Literal["eager", "side_stream", "graph"]
"""How launches are put to a device: as they come, the same on a stream of their own, or captured
in a graph over other contents and replayed twice. The plainest comes first."""

LAUNCHINGS: tuple[Launching, ...] = get_args(Launching)
MOST_SHIFT = 60


class Case(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The state before the first step, and the steps."""

    num_slots: Size
    slot_stride_bytes: Size = 32
    canary_buf: Content = Content()
    ring_capacity: Size = 0
    violation_ring: Content = Content()
    violation_write_index: Int32 = 0
    slot_run_counter: Int64 = 0
    kernel_run_counter: Int64 = 0
    real_kv_sources: Annotated[tuple[Source, ...], Meta(max_length=4)] = ()
    real_kv_hash_mode: Annotated[int, Meta(ge=0, le=2)] = 0
    steps: Annotated[tuple[Step, ...], Meta(max_length=64)] = ()
    schedule: Seed = 0
    """The interleaving of blocks and threads to run under, where a target can choose one."""
    launching: Launching = "eager"
    """Where the target is no device, or cannot do it, launches are put eagerly."""
    shift: Annotated[int, Meta(ge=0, le=MOST_SHIFT)] = 0
    """Bytes by which tensors begin behind a multiple of 64: rounded down for each of them to what
    its type and the contract allow."""
