"""From a step of a case to the launch that a target is given."""

from __future__ import annotations

import torch

from kv_canary_fuzz.reference import (
    RealKvSource,
    VerifyLaunch,
    VerifyOrWriteContext,
    VerifyPlan,
    WriteLaunch,
    WritePlan,
    consts,
)
from kv_canary_fuzz.strategies.case import Case, CorruptStep, Flip, VerifyStep, WriteStep

from .faulty import FaultyTensors
from .layout import Layout, in_memory, source_region
from .tensors import Memory


class Binder:
    """Makes the launches of one case whose bytes begin at ``base`` of a memory.

    Tensors are views of the memory. Where a step has faults, the tensors they concern are replaced
    by illegal ones outside the memory; a construction that the contract refuses raises ValueError.
    """

    def __init__(self, case: Case, layout: Layout, memory: Memory, base: int) -> None:
        self._case = case
        self._regions = layout.regions
        self._memory = memory
        self._base = base
        self._word_base = base // 8
        self._state = self._bind_state()
        self._sources = self._bind_sources()

    def launch(self, number: int) -> WriteLaunch | VerifyLaunch:
        """The launch of step ``number``, which must not be a CorruptStep."""
        step = self._case.steps[number]
        assert not isinstance(step, CorruptStep)
        if step.faults:
            return FaultyTensors(self._bind_step(number, step), step.faults).launch()
        return self._bind_step(number, step)

    def corrupt(self, step: CorruptStep) -> None:
        """Apply the step's edits to the memory."""
        canary = self._base + self._regions["canary_buf"].offset
        stride = self._case.slot_stride_bytes
        for edit in step.edits:
            if isinstance(edit, Flip):
                inside = in_memory(self._case, edit.region, edit.offset)
                start = self._base + self._regions[edit.region].offset
                self._memory.flip(start + inside, edit.mask)
            elif edit.first != edit.second:
                first, second = canary + edit.first * stride, canary + edit.second * stride
                self._memory.swap(first, second, consts.CANARY_SLOT_BYTES)

    def _bind_state(self) -> tuple[torch.Tensor, ...]:
        case = self._case
        canary = self._regions["canary_buf"]
        start = self._base + canary.offset
        return (
            self._memory.bytes[start : start + canary.size].view(
                case.num_slots, case.slot_stride_bytes
            ),
            self._words("violation_ring").view(case.ring_capacity, consts.VIOLATION_FIELDS),
            self._int("violation_write_index"),
            self._words("slot_run_counter"),
            self._words("kernel_run_counter"),
        )

    def _bind_sources(self) -> tuple[RealKvSource, ...]:
        bound = []
        for index, source in enumerate(self._case.real_kv_sources):
            region = self._regions[source_region(index)]
            start = self._base + region.offset
            tensor = self._memory.bytes[start : start + region.size].as_strided(
                (source.rows, source.row_bytes), (source.row_step, 1)
            )
            bound.append(
                RealKvSource(
                    tensor=tensor,
                    page_size=source.page_size,
                    num_bytes_per_token=source.num_bytes_per_token,
                    read_bytes=source.read_bytes,
                )
            )
        return tuple(bound)

    def _words(self, name: str) -> torch.Tensor:
        region = self._regions[name]
        start = self._word_base + region.offset // 8
        return self._memory.words[start : start + region.size // 8]

    def _int(self, name: str) -> torch.Tensor:
        start = (self._base + self._regions[name].offset) // 4
        return self._memory.ints[start : start + 1]

    def _bind_step(self, number: int, step: WriteStep | VerifyStep) -> WriteLaunch | VerifyLaunch:
        prefix = f"steps[{number}]."
        context = self._context(
            step.kernel_kind, self._int(prefix + "enable_chain_position_assert")
        )
        if isinstance(step, WriteStep):
            return self._bind_write(prefix, step, context)
        return self._bind_verify(prefix, step, context)

    def _context(self, kernel_kind: int, position_assert: torch.Tensor) -> VerifyOrWriteContext:
        canary, ring, index, slot_runs, kernel_runs = self._state
        return VerifyOrWriteContext(
            canary_buf=canary,
            kernel_kind=kernel_kind,
            violation_ring=ring,
            violation_write_index=index,
            slot_run_counter=slot_runs,
            kernel_run_counter=kernel_runs,
            real_kv_sources=self._sources,
            real_kv_hash_mode=self._case.real_kv_hash_mode,
            enable_chain_position_assert=position_assert,
        )

    def _bind_write(
        self, prefix: str, step: WriteStep, context: VerifyOrWriteContext
    ) -> WriteLaunch:
        expects = step.expected_input_tokens is not None, step.expected_input_positions is not None
        return WriteLaunch(
            context=context,
            plan=WritePlan(
                write_offsets=self._words(prefix + "plan.write_offsets"),
                write_seed_slot_indices=self._words(prefix + "plan.write_seed_slot_indices"),
                write_num_valid_reqs=self._int(prefix + "plan.write_num_valid_reqs"),
            ),
            input_ids=self._words(prefix + "input_ids"),
            positions=self._words(prefix + "positions"),
            out_cache_loc=self._words(prefix + "out_cache_loc"),
            enable_write_input_assert=step.enable_write_input_assert,
            expected_input_tokens=(
                self._words(prefix + "expected_input_tokens") if expects[0] else None
            ),
            expected_input_positions=(
                self._words(prefix + "expected_input_positions") if expects[1] else None
            ),
        )

    def _bind_verify(
        self, prefix: str, step: VerifyStep, context: VerifyOrWriteContext
    ) -> VerifyLaunch:
        return VerifyLaunch(
            context=context,
            plan=VerifyPlan(
                verify_slot_indices=self._words(prefix + "plan.verify_slot_indices"),
                verify_expected_tokens=self._words(prefix + "plan.verify_expected_tokens"),
                verify_expected_positions=self._words(prefix + "plan.verify_expected_positions"),
                verify_prev_slot_indices=self._words(prefix + "plan.verify_prev_slot_indices"),
                verify_num_valid=self._int(prefix + "plan.verify_num_valid"),
                enable=self._int(prefix + "plan.enable"),
            ),
            check_verify_expected_token=step.check_verify_expected_token,
        )
