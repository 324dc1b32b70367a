"""The launch table: where every tensor of a batch of launches lies, as columns of one matrix.

A column holds one number per launch. A tensor's column is its offset, counted in its own elements,
into a flat tensor: the one storage of a batch, or the storage of each tensor of a single launch.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence

import numpy as np
import torch

from .memory import Memory
from .sources import SourceRows, SourceTable
from .types import VerifyLaunch, VerifyOrWriteContext, WriteLaunch

Launch = WriteLaunch | VerifyLaunch

_CONTEXT_TENSORS = (
    ("canary_buf", 8),
    ("violation_ring", 8),
    ("violation_write_index", 4),
    ("slot_run_counter", 8),
    ("kernel_run_counter", 8),
    ("enable_chain_position_assert", 4),
)
_WRITE_TENSORS = (
    *_CONTEXT_TENSORS,
    ("write_offsets", 8),
    ("write_seed_slot_indices", 8),
    ("write_num_valid_reqs", 4),
    ("input_ids", 8),
    ("positions", 8),
    ("out_cache_loc", 8),
    ("expected_input_tokens", 8),
    ("expected_input_positions", 8),
)
_VERIFY_TENSORS = (
    *_CONTEXT_TENSORS,
    ("verify_slot_indices", 8),
    ("verify_expected_tokens", 8),
    ("verify_expected_positions", 8),
    ("verify_prev_slot_indices", 8),
    ("verify_num_valid", 4),
    ("enable", 4),
)
_CONTEXT_NUMBERS = ("num_slots", "slot_words", "ring_capacity", "kernel_kind", "num_sources")
_WRITE_NUMBERS = (*_CONTEXT_NUMBERS, "write_req_capacity", "num_tokens_padded")
_VERIFY_NUMBERS = (*_CONTEXT_NUMBERS, "verify_capacity", "check_verify_expected_token")


class LaunchTable:
    """The columns of a batch: ``table[name]`` is int64 [launches], on the launches' device."""

    def __init__(
        self,
        columns: dict[str, torch.Tensor],
        flats: dict[str, torch.Tensor],
        sources: tuple[SourceTable, ...],
    ) -> None:
        self._columns = columns
        self._flats = flats
        self.sources = sources

    def __getitem__(self, name: str) -> torch.Tensor:
        return self._columns[name]

    def flat(self, name: str) -> torch.Tensor:
        """The flat tensor that holds the elements of tensor ``name`` of every launch."""
        return self._flats[name]

    def of(self, name: str, launch: torch.Tensor) -> torch.Tensor:
        """The column's number for each of ``launch``."""
        return self._columns[name].index_select(0, launch)

    def load(self, name: str, launch: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        """Element ``index[k]`` of tensor ``name`` of launch ``launch[k]``, for every k."""
        return self._flats[name].index_select(0, self.of(name, launch).add_(index))

    def scalars(self, name: str) -> torch.Tensor:
        """Element 0 of tensor ``name`` of every launch, as int64."""
        return self._flats[name].index_select(0, self._columns[name]).long()


def write_table(launches: Sequence[WriteLaunch]) -> LaunchTable:
    """The table of write launches; more than one must lie in one storage (NotOneStorage)."""
    return _table(launches, _WRITE_TENSORS, _WRITE_NUMBERS, _write_tensors, _write_numbers)


def verify_table(launches: Sequence[VerifyLaunch]) -> LaunchTable:
    """The table of verify launches; more than one must lie in one storage (NotOneStorage)."""
    return _table(launches, _VERIFY_TENSORS, _VERIFY_NUMBERS, _verify_tensors, _verify_numbers)


def _table(
    launches: Sequence[Launch],
    tensor_names: tuple[tuple[str, int], ...],
    number_names: tuple[str, ...],
    tensors_of: Callable[..., tuple[torch.Tensor, ...]],
    numbers_of: Callable[..., tuple[int, ...]],
) -> LaunchTable:
    cells = array("q")
    sources = SourceRows()
    for place, launch in enumerate(launches):
        cells.extend([tensor.data_ptr() for tensor in tensors_of(launch)])
        num_sources = sources.add(place, launch.context)
        cells.extend(numbers_of(launch, num_sources))
    matrix = np.frombuffer(cells, dtype=np.int64).reshape(len(launches), -1).T.copy()
    addresses = matrix[: len(tensor_names)]
    if len(launches) > 1:
        shared = Memory(launches[0].context.canary_buf)
        shared.require(addresses)
        memories = [shared] * len(tensor_names)
        source_tables = sources.tables(shared)
    else:
        memories = [Memory(tensor) for tensor in tensors_of(launches[0])]
        source_tables = sources.tables(None)
    flats = {}
    for row, memory, (name, itemsize) in zip(addresses, memories, tensor_names, strict=True):
        row -= memory.first_address(itemsize)
        row //= itemsize
        flats[name] = memory.int64 if itemsize == 8 else memory.int32
    device = launches[0].context.canary_buf.device
    columns = torch.from_numpy(matrix).to(device).unbind(0)
    names = (*(name for name, _ in tensor_names), *number_names)
    return LaunchTable(dict(zip(names, columns, strict=True)), flats, source_tables)


def _context_tensors(context: VerifyOrWriteContext) -> tuple[torch.Tensor, ...]:
    return (
        context.canary_buf,
        context.violation_ring,
        context.violation_write_index,
        context.slot_run_counter,
        context.kernel_run_counter,
        context.enable_chain_position_assert,
    )


def _write_tensors(launch: WriteLaunch) -> tuple[torch.Tensor, ...]:
    plan = launch.plan
    expected_tokens, expected_positions = (
        launch.expected_input_tokens,
        launch.expected_input_positions,
    )
    return (
        *_context_tensors(launch.context),
        plan.write_offsets,
        plan.write_seed_slot_indices,
        plan.write_num_valid_reqs,
        launch.input_ids,
        launch.positions,
        launch.out_cache_loc,
        # Inputs that nothing is expected of are expected to be what they are.
        launch.input_ids if expected_tokens is None else expected_tokens,
        launch.positions if expected_positions is None else expected_positions,
    )


def _verify_tensors(launch: VerifyLaunch) -> tuple[torch.Tensor, ...]:
    plan = launch.plan
    return (
        *_context_tensors(launch.context),
        plan.verify_slot_indices,
        plan.verify_expected_tokens,
        plan.verify_expected_positions,
        plan.verify_prev_slot_indices,
        plan.verify_num_valid,
        plan.enable,
    )


def _context_numbers(context: VerifyOrWriteContext, num_sources: int) -> tuple[int, ...]:
    num_slots, slot_bytes = context.canary_buf.shape
    ring_capacity = context.violation_ring.shape[0]
    return (num_slots, slot_bytes // 8, ring_capacity, context.kernel_kind, num_sources)


def _write_numbers(launch: WriteLaunch, num_sources: int) -> tuple[int, ...]:
    return (
        *_context_numbers(launch.context, num_sources),
        launch.plan.write_seed_slot_indices.shape[0],
        launch.input_ids.shape[0],
    )


def _verify_numbers(launch: VerifyLaunch, num_sources: int) -> tuple[int, ...]:
    return (
        *_context_numbers(launch.context, num_sources),
        launch.plan.verify_slot_indices.shape[0],
        launch.check_verify_expected_token,
    )
