"""Two kernels that bound the others' speed on a GPU: one does nothing, one only mixes a chain."""

from __future__ import annotations

from typing import Any

import torch

from . import abi
from .gpu import BLOCK_THREADS, current_cupy_stream, import_cupy
from .source import read_sources, translation_unit

LIMITS_ROOT = "limits.cu"


class Limits:
    """The kernels of ``csrc/limits.cu`` on the current device, launched on torch's current stream.

    Raises GpuUnavailable where there is no GPU or no CuPy.
    """

    def __init__(self) -> None:
        cupy = import_cupy()
        text = translation_unit(read_sources(), LIMITS_ROOT)
        definitions = abi.definitions(abi.source_bound(None), BLOCK_THREADS)
        module = cupy.RawModule(code=text, options=("-std=c++17", *definitions))
        self._device = torch.cuda.current_device()
        self._hash = torch.zeros(1, dtype=torch.int64, device="cuda")
        self._nothing = module.get_function("kv_canary_nothing")
        self._mix_chain = module.get_function("kv_canary_mix_chain")

    def nothing(self) -> None:
        """A launch of one block that does nothing."""
        self._launch(self._nothing, ())

    def mix_chain(self, tokens: int) -> None:
        """The mixing of a chain of that many tokens, by one thread."""
        self._launch(self._mix_chain, (tokens, self._hash.data_ptr()))

    def _launch(self, kernel: Any, arguments: tuple[int, ...]) -> None:
        with current_cupy_stream(self._device):
            kernel((1,), (1,), arguments)
