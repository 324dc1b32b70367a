"""The arena's bytes on a device, as the tensors that launches take."""

from __future__ import annotations

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

    def read_into(self, buffer: Bytes) -> None:
        """Copy the first bytes to ``buffer``, unless that is where they are."""
        if self._host is None:
            torch.from_numpy(buffer).copy_(self.bytes[: buffer.size])

    def flip(self, offset: int, mask: int) -> None:
        """XOR a byte. On a device it is put on the current stream, and nothing is waited for."""
        if self._host is not None:
            self._host[offset] ^= mask
        else:
            self.bytes[offset : offset + 1].bitwise_xor_(mask)

    def swap(self, first: int, second: int, size: int) -> None:
        """Exchange two disjoint stretches of ``size`` bytes; on a device like `flip`."""
        one, other = (self.bytes[start : start + size] for start in (first, second))
        for changed, by in ((one, other), (other, one), (one, other)):
            changed.bitwise_xor_(by)

    def part(self, base: int, size: int) -> Part:
        return Part(self.bytes[base : base + size])


class Part:
    """A stretch of a memory, where one case lies. All of it happens on the current stream."""

    def __init__(self, data: torch.Tensor) -> None:
        self._data = data

    def copy(self) -> torch.Tensor:
        return self._data.clone()

    def put(self, data: torch.Tensor) -> None:
        self._data.copy_(data)

    def blank(self) -> None:
        """Zeros: contents under which a launch is legal and has nothing to do."""
        self._data.zero_()
