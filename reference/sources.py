"""The real-KV sources of a batch of launches, as columns, the longest folds first."""

from __future__ import annotations

from array import array
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from . import consts
from .enums import RealKvHashMode
from .memory import Memory
from .types import VerifyOrWriteContext

_LAUNCH, _ORDINAL, _ADDRESS, _ROW_STEP, _PAGE_SIZE, _TOKEN_BYTES, _FOLD_BYTES = range(7)


@dataclass(frozen=True)
class SourceTable:
    """Sources whose bytes lie in one flat int64 tensor, the longest folds first.

    Columns are int64 [sources]; offsets, steps and widths count 8-byte words. ``ordinal`` is the
    source's place in its launch.
    """

    flat: torch.Tensor
    launch: torch.Tensor
    ordinal: torch.Tensor
    offset: torch.Tensor
    row_step: torch.Tensor
    page_size: torch.Tensor
    token_words: torch.Tensor
    fold_words: list[int]


class SourceRows:
    """Collects the sources that a batch folds, and makes tables of them."""

    def __init__(self) -> None:
        self._cells = array("q")
        self._tensors: list[torch.Tensor] = []

    def add(self, launch: int, context: VerifyOrWriteContext) -> int:
        """Take the sources of a launch; how many are folded: none in mode NONE."""
        mode = context.real_kv_hash_mode
        if mode == RealKvHashMode.NONE:
            return 0
        partial = mode == RealKvHashMode.PARTIAL
        for ordinal, source in enumerate(context.real_kv_sources):
            tensor = source.tensor
            self._tensors.append(tensor)
            self._cells.extend(
                (
                    launch,
                    ordinal,
                    tensor.data_ptr(),
                    tensor.stride(0) * tensor.element_size(),
                    source.page_size,
                    source.num_bytes_per_token,
                    consts.PARTIAL_FOLD_BYTES if partial else source.read_bytes,
                )
            )
        return len(context.real_kv_sources)

    def tables(self, shared: Memory | None) -> tuple[SourceTable, ...]:
        """One table over the ``shared`` memory, or where there is none one for each storage.

        Raises NotOneStorage where a source lies outside the shared memory.
        """
        if not self._tensors:
            return ()
        cells = np.frombuffer(self._cells, dtype=np.int64).reshape(len(self._tensors), -1)
        if shared is not None:
            shared.require(cells[:, _ADDRESS])
            return (_table(cells, shared, self._tensors[0].device),)
        memories = [Memory(tensor) for tensor in self._tensors]
        rows: dict[int, list[int]] = {}
        for row, memory in enumerate(memories):
            rows.setdefault(memory.start, []).append(row)
        device = self._tensors[0].device
        return tuple(_table(cells[some], memories[some[0]], device) for some in rows.values())


def _table(cells: npt.NDArray[np.int64], memory: Memory, device: torch.device) -> SourceTable:
    order = np.argsort(-cells[:, _FOLD_BYTES], kind="stable")
    columns = cells[order].T.copy()
    columns[_ADDRESS] -= memory.first_address(8)
    columns[[_ADDRESS, _ROW_STEP, _TOKEN_BYTES, _FOLD_BYTES]] //= 8
    launch, ordinal, offset, row_step, page_size, token_words, _ = (
        torch.from_numpy(columns).to(device).unbind(0)
    )
    return SourceTable(
        flat=memory.int64,
        launch=launch,
        ordinal=ordinal,
        offset=offset,
        row_step=row_step,
        page_size=page_size,
        token_words=token_words,
        fold_words=columns[_FOLD_BYTES].tolist(),
    )
