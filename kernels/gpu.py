"""The CUDA source on a GPU: built by CuPy at run time, launched from torch tensors.

A launch goes to the current torch stream of the tensors' own device, whichever device is current,
and neither waits for the device nor allocates or copies there, so it can be captured in a graph.
The first launch on a device builds the kernels: make one before capturing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from kv_canary_fuzz.reference.checked import CheckedLaunchers
from kv_canary_fuzz.reference.contract import DOCUMENTED
from kv_canary_fuzz.reference.types import VerifyLaunch, WriteLaunch

from . import abi
from .errors import CompileError, GpuUnavailable
from .source import KERNEL_ROOT, Patch, apply_patches, read_sources, translation_unit

BLOCK_THREADS = 256

_REASON_CHARACTERS = 200

BLOCKS_PER_MULTIPROCESSOR = {
    "kv_canary_write_folded": 2,
    "kv_canary_write_plain": 2,
    "kv_canary_verify_folded": 2,
    "kv_canary_verify_heads": 3,
    "kv_canary_verify_plain": 4,
}
"""How many blocks of a kernel a multiprocessor is given at most: what its registers allow."""


class _StreamHandle:
    """A stream of torch's in the protocol that CuPy takes streams by."""

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self.handle)


class DeviceBuild:
    """The kernels loaded on one device."""

    def __init__(self, cupy: Any, device: int, text: str, max_sources: int) -> None:
        self._cupy = cupy
        self._device = device
        options = ("-std=c++17", *abi.definitions(max_sources, BLOCK_THREADS))
        with cupy.cuda.Device(device) as current:
            self._multiprocessors = int(current.attributes["MultiProcessorCount"])
            try:
                module = cupy.RawModule(code=text, options=options)
                kernels = {name: module.get_function(name) for name in abi.KERNELS}
            except cupy.cuda.compiler.CompileException as error:
                raise CompileError(f"NVRTC refused the kernel source:\n{error}") from error
            # Asking for an attribute loads a kernel, which cannot be done during a capture.
            self.registers = {name: int(kernel.num_regs) for name, kernel in kernels.items()}
            self._functions = {name: kernel.kernel for name, kernel in kernels.items()}

    def launch(self, packed: abi.Packed) -> None:
        """Put one grid on the current torch stream of the device."""
        per_multiprocessor = BLOCKS_PER_MULTIPROCESSOR[packed.kernel]
        max_blocks = per_multiprocessor * self._multiprocessors
        blocks = packed.blocks(BLOCK_THREADS // abi.WARP_LANES, max_blocks)
        # An array of one element is what CuPy passes by value.
        words = np.frombuffer(packed.words, dtype=f"V{len(packed.words)}")
        stream = current_cupy_stream(self._device)
        function = self._functions[packed.kernel]
        if torch.cuda.current_device() == self._device:
            function((blocks,), (BLOCK_THREADS,), (words,), stream=stream)
            return
        with self._cupy.cuda.Device(self._device):
            function((blocks,), (BLOCK_THREADS,), (words,), stream=stream)


class GpuKernels(CheckedLaunchers):
    """A target: the two launchers on CUDA tensors, built for each device when first met there.

    ``contract``, the revision whose refusals hold, may be set between launches.
    """

    def __init__(self, max_sources: int, text: str) -> None:
        super().__init__(
            contract=DOCUMENTED,
            max_sources=max_sources,
            run_write=lambda launch: self._launch(launch, abi.pack_write(launch, max_sources)),
            run_verify=lambda launch: self._launch(launch, abi.pack_verify(launch, max_sources)),
        )
        self._bound = max_sources
        self._cupy = import_cupy()
        self._text = text
        self._builds: dict[int, DeviceBuild] = {}

    def _launch(self, launch: WriteLaunch | VerifyLaunch, packed: abi.Packed) -> None:
        self.on_device(launch.context.canary_buf.device).launch(packed)

    def on_device(self, device: torch.device) -> DeviceBuild:
        """The build for a device, made now if there is none yet.

        Raises ValueError for a device that is no GPU, CompileError with NVRTC's log.
        """
        if device.type != "cuda":
            raise ValueError(f"kv-canary: canary_buf must be on a CUDA device, got {device}")
        index = torch.cuda.current_device() if device.index is None else device.index
        built = self._builds.get(index)
        if built is None:
            built = DeviceBuild(self._cupy, index, self._text, self._bound)
            self._builds[index] = built
        return built


def build(max_sources: int | None = None, patches: Sequence[Patch] = ()) -> GpuKernels:
    """The kernels for any GPU of this machine; each device's build is made when it is first used.

    Raises GpuUnavailable or PatchError.
    """
    text = translation_unit(apply_patches(read_sources(), patches), KERNEL_ROOT)
    return GpuKernels(abi.source_bound(max_sources), text)


def current_cupy_stream(device: int) -> Any:
    """Torch's current stream of a device as one of CuPy's."""
    return _stream(device, torch.cuda.current_stream(device).cuda_stream)


@lru_cache(maxsize=256)
def _stream(device: int, handle: int) -> Any:
    cuda = import_cupy().cuda
    if handle == 0:
        return cuda.Stream.null
    if hasattr(cuda.Stream, "from_external"):
        return cuda.Stream.from_external(_StreamHandle(handle))
    return cuda.ExternalStream(handle, device)


def import_cupy() -> Any:
    """CuPy, for the CUDA of this torch. Raises GpuUnavailable with the extra to install."""
    version = torch.version.cuda
    if version is None or not torch.cuda.is_available():
        raise GpuUnavailable("torch sees no CUDA device: it needs a CUDA build and a driver")
    extra = "cuda12" if version.startswith("12.") else "cuda13"
    advice = f"install it with 'pip install kv-canary-fuzz[{extra}]'"
    try:
        import cupy
    except ImportError as error:
        reason = " ".join(str(error).split())[:_REASON_CHARACTERS]
        raise GpuUnavailable(f"the GPU build needs CuPy: {advice} ({reason})") from error
    runtime = cupy.cuda.runtime
    if runtime.runtimeGetVersion() // 1000 > runtime.driverGetVersion() // 1000:
        raise GpuUnavailable(
            f"CuPy is built for CUDA {runtime.runtimeGetVersion() // 1000} and the driver supports "
            f"{runtime.driverGetVersion() // 1000}: {advice}"
        )
    return cupy
