"""Memory as flat arrays of words, so that tensors of many launches are offsets into one tensor."""

from __future__ import annotations

import ctypes
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch


class NotOneStorage(Exception):
    """The launches of a batch do not lie in one storage, so they cannot run as one."""


class Memory:
    """The storage behind a tensor, seen as int64 or int32 from its first aligned address on.

    The views share the storage's bytes; they are never copies.
    """

    def __init__(self, tensor: torch.Tensor) -> None:
        self._storage = tensor.untyped_storage()
        self._device = tensor.device
        self.start = self._storage.data_ptr()
        self.end = self.start + self._storage.nbytes()

    @cached_property
    def int64(self) -> torch.Tensor:
        """Every whole int64 of the storage; element 0 is at ``first_address(8)``."""
        return self._view(torch.int64)

    @cached_property
    def int32(self) -> torch.Tensor:
        """Every whole int32 of the storage; element 0 is at ``first_address(4)``."""
        return self._view(torch.int32)

    def first_address(self, itemsize: int) -> int:
        """The lowest address in the storage that is a multiple of ``itemsize``."""
        return -(-self.start // itemsize) * itemsize

    def require(self, addresses: npt.NDArray[np.int64]) -> None:
        """Raise NotOneStorage where an address lies elsewhere; 0, of an empty tensor, is fine."""
        inside = (addresses >= self.start) & (addresses < self.end)
        if not (inside | (addresses == 0)).all():
            raise NotOneStorage

    def _view(self, dtype: torch.dtype) -> torch.Tensor:
        first = self.first_address(dtype.itemsize)
        count = max(self.end - first, 0) // dtype.itemsize
        if first == self.start or not count:
            empty = torch.empty(0, dtype=dtype, device=self._device)
            return empty.set_(self._storage, 0, (count,), (1,))
        # Host memory lent by another library may start anywhere; a storage cannot be seen from a
        # place that is not a whole number of elements in.
        lent = (ctypes.c_char * (count * dtype.itemsize)).from_address(first)
        return torch.frombuffer(lent, dtype=dtype)
