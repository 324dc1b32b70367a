"""What each launch must report, worked out from the case alone, without any hash.

Chains and real-KV hashes are terms (see `terms`, `folds`), so this knows what a corruption causes
independently of every implementation of the hash functions.
"""

from __future__ import annotations

from kv_canary_fuzz.reference.contract import RELEASED, Contract
from kv_canary_fuzz.reference.enums import FailReason

from ..case import Case, CorruptStep, Flip, VerifyStep, WriteStep
from ..classify import Domain, classify
from ..columns import head
from ..launches import active_requests, entries
from ..regions import slot_fields
from ..values import as_int64
from .folds import Folds
from .terms import Terms

Row = tuple[int, int, int]
"""(slot, position, fail bits), as in a violation row's fields."""

_CHAIN = int(FailReason.VERIFY_CHAIN_HASH_MISMATCH)
_POSITION = int(FailReason.VERIFY_POSITION_MISMATCH)
_REAL_KV = int(FailReason.VERIFY_REAL_KV_HASH_MISMATCH)
_TOKEN = int(FailReason.VERIFY_TOKEN_MISMATCH)
_WRITE_TOKEN = int(FailReason.WRITE_TOKEN_MISMATCH)
_WRITE_POSITION = int(FailReason.WRITE_POSITION_MISMATCH)


def expected_bits(case: Case, contract: Contract = RELEASED) -> tuple[tuple[Row, ...] | None, ...]:
    """For each step the rows that it must produce, ascending, as (slot, position, bits).

    A row stands there as often as it is produced, also where the ring has no room for it; a
    corrupt step, a refused launch and a verify launch that is not enabled produce none. None in
    place of a step's rows: something that they depend on cannot be known, which happens only where
    the canary buffer has patches (its author may have patched in a true hash) or the case is
    undefined. Where the contract does not allow rows apart, a case that has them is refused
    throughout. Pure; valid, hardened and refused cases alike.
    """
    apart = any(source.row_gap and source.rows > 1 for source in case.real_kv_sources)
    if apart and not contract.strided_rows:
        return ((),) * len(case.steps)
    if classify(case) is Domain.UNDEFINED:
        return (None,) * len(case.steps)
    state = _State(case)
    return tuple([state.run(step) for step in case.steps])


class _State:
    """The slots as they stand between two steps: token, position, and two hash terms each."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._terms = Terms()
        self._folds = Folds(case, self._terms)
        self._slots: dict[int, tuple[int, int, int, int]] = {}

    def run(self, step: WriteStep | VerifyStep | CorruptStep) -> tuple[Row, ...] | None:
        """Carry out one step; its rows."""
        if isinstance(step, CorruptStep):
            self._corrupt(step)
            return ()
        if step.faults:
            return ()
        rows = self._write(step) if isinstance(step, WriteStep) else self._verify(step)
        return None if rows is None else tuple(sorted(rows))

    def _fields(self, slot: int) -> tuple[int, int, int, int]:
        fields = self._slots.get(slot)
        if fields is None:
            token, position, prev_hash, real_kv_hash = slot_fields(self._case, slot)
            doubtful = bool(self._case.canary_buf.patches)
            number = self._terms.number
            fields = self._slots[slot] = (
                token,
                position,
                number(prev_hash, doubtful=doubtful),
                number(real_kv_hash, doubtful=doubtful),
            )
        return fields

    def _after(self, slot: int) -> int:
        """The chain hash that a successor of the slot stores."""
        token, position, prev_hash, _ = self._fields(slot)
        return self._terms.link(prev_hash, token, position)

    def _corrupt(self, step: CorruptStep) -> None:
        for edit in step.edits:
            if not isinstance(edit, Flip):
                first, second = self._fields(edit.first), self._fields(edit.second)
                self._slots[edit.first], self._slots[edit.second] = second, first
            elif edit.region == "canary_buf":
                self._flip_slot(*divmod(edit.offset, self._case.slot_stride_bytes), edit.mask)
            else:
                self._folds.flip(edit)

    def _flip_slot(self, slot: int, byte: int, mask: int) -> None:
        token, position, prev_hash, real_kv_hash = self._fields(slot)
        mask <<= byte % 8 * 8
        field = byte // 8
        if field == 0:
            token = as_int64(token ^ mask)
        elif field == 1:
            position = as_int64(position ^ mask)
        elif field == 2:
            prev_hash = self._terms.xor(prev_hash, mask)
        elif field == 3:
            real_kv_hash = self._terms.xor(real_kv_hash, mask)
        self._slots[slot] = (token, position, prev_hash, real_kv_hash)

    def _write(self, step: WriteStep) -> list[Row]:
        rows: list[Row] = []
        num_slots = self._case.num_slots
        asserts = (step.expected_input_tokens, step.expected_input_positions)
        link, fold = self._terms.link, self._folds.of
        for seed, first, end in active_requests(step):
            seeded = 0 <= seed < num_slots
            running = self._after(seed) if seeded else self._terms.anchor
            previous: int | None = None
            if seeded and step.enable_chain_position_assert:
                previous = self._fields(seed)[1]
            columns = (step.out_cache_loc, step.input_ids, step.positions)
            slots, tokens, positions = (head(column, end)[first:] for column in columns)
            wanted = [column and head(column, end)[first:] for column in asserts]
            wanted_tokens, wanted_positions = wanted[0] or tokens, wanted[1] or positions
            for i, slot in enumerate(slots):
                if not 0 <= slot < num_slots:
                    continue
                token, position = tokens[i], positions[i]
                bits = _WRITE_TOKEN if token != wanted_tokens[i] else 0
                if position != wanted_positions[i]:
                    bits |= _WRITE_POSITION
                if bits:
                    rows.append((slot, position, bits))
                if previous is not None:
                    if position != as_int64(previous + 1):
                        rows.append((slot, position, _WRITE_POSITION))
                    previous = position
                self._slots[slot] = (token, position, running, fold(slot))
                running = link(running, token, position)
        return rows

    def _verify(self, step: VerifyStep) -> list[Row] | None:
        rows: list[Row] = []
        num_slots = self._case.num_slots
        if step.enable == 0:
            return rows
        differ = self._terms.differ
        for slot, wanted_token, wanted_position, prev_slot in entries(step):
            if not 0 < slot < num_slots:
                continue
            token, position, prev_hash, real_kv_hash = self._fields(slot)
            bits = 0
            if prev_slot and prev_slot < num_slots:
                expected = self._after(prev_slot) if prev_slot > 0 else self._terms.anchor
                different = differ(prev_hash, expected)
                if different is None:
                    return None
                bits = _CHAIN if different else 0
            different = differ(real_kv_hash, self._folds.of(slot))
            if different is None:
                return None
            if different:
                bits |= _REAL_KV
            if step.check_verify_expected_token and wanted_token not in (-1, token):
                bits |= _TOKEN
            if position != wanted_position:
                bits |= _POSITION
            if bits:
                rows.append((slot, position, bits))
        return rows
