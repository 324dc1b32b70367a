"""The arena's bytes on a device, as the tensors that launches take."""

from __future__ import annotations

import numpy as np
import torch

from .arena import Bytes


class Memory:
    """One buffer on a device, seen as uint8, int32 and int64.

    Built of a numpy buffer it shares that memory on the CPU and copies it to any other device.
    """

    def __init__(self, buffer: Bytes, device: str) -> None:
        host = torch.from_numpy(buffer)
        self.bytes = host if device == "cpu" else host.to(device)
        self.words = self.bytes.view(torch.int64)
        self.ints = self.bytes.view(torch.int32)
        self._host = buffer if device == "cpu" else None

    def read(self, offset: int, size: int) -> Bytes:
        """A view of the bytes where they are on the CPU, a copy otherwise."""
        if self._host is not None:
            return self._host[offset : offset + size]
        return self.bytes[offset : offset + size].cpu().numpy()

    def write(self, offset: int, data: Bytes) -> None:
        if self._host is not None:
            self._host[offset : offset + data.size] = data
        else:
            self.bytes[offset : offset + data.size] = torch.from_numpy(data).to(self.bytes.device)

    def flip(self, offset: int, mask: int) -> None:
        self.write(offset, self.read(offset, 1) ^ np.uint8(mask))

    def swap(self, first: int, second: int, size: int) -> None:
        """Exchange two disjoint stretches of ``size`` bytes."""
        kept = self.read(first, size).copy()
        self.write(first, self.read(second, size))
        self.write(second, kept)
