"""The pass that puts what earlier steps did into the state that a case starts from.

The steps before the failing one are replaced by the bytes they leave: stamps by the contract's
sections 3 and 4, and edits. Their counters and violation rows are left out, as they matter to no
later step; where they do, the candidate passes and is not taken.
"""

from __future__ import annotations

from msgspec.structs import replace

from kv_canary_fuzz.reference import consts

from ..case import Case, CorruptStep, Edit, SwapSlots, WriteStep
from ..columns import expand
from .problem import Problem, first
from .relabel import source_frame
from .words import (
    CANARY,
    WORD_BYTES,
    content_of,
    patched_words,
    put_content,
    read_words,
    region_names,
    signed,
    source_region,
    with_words,
)

MANY_ENTRIES = 1024
_MASK = 2**64 - 1
_PARTIAL, _ALL = 1, 2


def absorb_history(problem: Problem) -> None:
    """All steps but the last, else fewer, into the contents."""
    case = problem.case
    first(problem, (absorbed(case, n) for n in range(len(case.steps) - 1, 0, -1)))


def absorbed(case: Case, count: int) -> Case:
    """The case that starts after its first ``count`` steps, as far as canary and KV bytes go.

    Returns the case itself where those steps have more than MANY_ENTRIES entries.
    """
    steps, later = case.steps[:count], case.steps[count:]
    entries = sum(step.input_ids.length for step in steps if isinstance(step, WriteStep))
    if entries > MANY_ENTRIES:
        return case
    memory = _Memory(case)
    for step in steps:
        if isinstance(step, WriteStep):
            _write(memory, step)
        elif isinstance(step, CorruptStep):
            for edit in step.edits:
                _edit(memory, edit)
    return replace(memory.stored(), steps=later)


class _Memory:
    """The words of a case's regions, read through what was written since."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self._bases = {name: content_of(case, name) for name in region_names(case)}
        self._words = {name: patched_words(base) for name, base in self._bases.items()}

    def read(self, region: str, start: int, count: int) -> list[int]:
        words, indices = self._words[region], range(start, start + count)
        unread = read_words(self._bases[region], (i for i in indices if i not in words))
        return [words[index] if index in words else unread[index] for index in indices]

    def write(self, region: str, start: int, written: list[int]) -> None:
        self._words[region].update(enumerate(map(signed, written), start))

    def stored(self) -> Case:
        case = self.case
        for name, base in self._bases.items():
            case = put_content(case, name, with_words(base, self._words[name]))
        return case

    def slot_start(self, slot: int) -> int:
        return slot * self.case.slot_stride_bytes // WORD_BYTES

    def slot(self, slot: int) -> list[int]:
        return self.read(CANARY, self.slot_start(slot), consts.CANARY_FIELDS_PER_SLOT)

    def real_kv_hash(self, slot: int) -> int:
        mode = self.case.real_kv_hash_mode
        if mode not in (_PARTIAL, _ALL):
            return 0
        total = 0
        for k, source in enumerate(self.case.real_kv_sources):
            start = source_frame(source).join(slot, 0, 0)
            size = source.read_bytes if mode == _ALL else consts.PARTIAL_FOLD_BYTES
            fold = 0
            if start is not None:
                for word in self.read(source_region(k), start // WORD_BYTES, size // WORD_BYTES):
                    fold = _finalise(fold ^ word)
            total = _finalise(total ^ fold)
        return total


def _write(memory: _Memory, step: WriteStep) -> None:
    num_slots, length = memory.case.num_slots, step.input_ids.length
    offsets, seeds = expand(step.write_offsets), expand(step.write_seed_slot_indices)
    tokens, positions = expand(step.input_ids), expand(step.positions)
    slots = expand(step.out_cache_loc)
    for request in range(min(max(step.write_num_valid_reqs, 0), len(seeds))):
        running = _finalise(consts.CANARY_CHAIN_ANCHOR)
        if 0 <= seeds[request] < num_slots:
            token, position, before, _ = memory.slot(seeds[request])
            running = _link(before, token, position)
        for entry in range(max(offsets[request], 0), min(offsets[request + 1], length)):
            slot, token, position = slots[entry], tokens[entry], positions[entry]
            if 0 <= slot < num_slots:
                stamp = [token, position, running, memory.real_kv_hash(slot)]
                memory.write(CANARY, memory.slot_start(slot), stamp)
                running = _link(running, token, position)


def _edit(memory: _Memory, edit: Edit) -> None:
    if isinstance(edit, SwapSlots):
        one, other = memory.slot(edit.first), memory.slot(edit.second)
        memory.write(CANARY, memory.slot_start(edit.first), other)
        memory.write(CANARY, memory.slot_start(edit.second), one)
        return
    index, byte = divmod(edit.offset, WORD_BYTES)
    (word,) = memory.read(edit.region, index, 1)
    memory.write(edit.region, index, [word ^ edit.mask << 8 * byte])


def _link(before: int, token: int, position: int) -> int:
    return _finalise(_finalise(_finalise(before) ^ token) ^ position)


def _finalise(x: int) -> int:
    x &= _MASK
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & _MASK
    return x ^ x >> 31
