"""The CUDA source compiled for the host: both launchers on CPU tensors, without a GPU.

Threads of a block run as fibers, blocks one after another. It is one more implementation of the
contract, with the kernels' own source; it proves nothing about a GPU.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, Protocol

import numpy as np

from kv_canary_fuzz.reference.checked import CheckedLaunchers
from kv_canary_fuzz.reference.contract import DOCUMENTED
from kv_canary_fuzz.reference.types import VerifyLaunch, WriteLaunch

from . import abi
from .build import build_library
from .errors import EmulationError
from .source import EMULATED_ROOT, Patch, apply_patches, read_sources, translation_unit

DEFAULT_BLOCK_THREADS = 64
DEFAULT_MAX_BLOCKS = 3
"""A geometry small enough that a hundred entries cross its block and grid boundaries."""

MOST_BLOCK_THREADS = 160


class Geometry(NamedTuple):
    """Threads of a block, and the most blocks of a grid."""

    block_threads: int
    max_blocks: int


_DEFAULT = Geometry(DEFAULT_BLOCK_THREADS, DEFAULT_MAX_BLOCKS)
_OTHERS = (
    *(Geometry(32, blocks) for blocks in (1, 2, 5)),
    *(Geometry(64, blocks) for blocks in (1, 7)),
    *(Geometry(96, blocks) for blocks in (1, 2)),
    *(Geometry(128, blocks) for blocks in (1, 3)),
    *(Geometry(MOST_BLOCK_THREADS, blocks) for blocks in (1, 3)),
)
GEOMETRIES = (_DEFAULT,) * 31 + _OTHERS * 3
"""What a schedule seed picks from, by its low 6 bits; 0, the natural order, has the default."""

_ERROR_BYTES = 1024
_CODE_BYTES = 1 << 20
_TRACE_FLAGS = ("-fsanitize-coverage=trace-pc", "-DKV_TRACE_BLOCKS")


class Library:
    """A loaded build."""

    def __init__(self, path: Path, kernels: Sequence[str] = abi.KERNELS) -> None:
        loaded = ctypes.CDLL(str(path))
        self.path = path
        self._loaded = loaded
        self.error = ctypes.create_string_buffer(_ERROR_BYTES)
        self.launchers: dict[str, Callable[..., int]] = {}
        for kernel in kernels:
            launcher: Any = getattr(loaded, f"launch_{kernel}")
            launcher.argtypes = [
                ctypes.c_char_p,
                ctypes.c_void_p,
                ctypes.c_uint,
                ctypes.c_uint,
                ctypes.c_uint64,
                ctypes.c_char_p,
                ctypes.c_size_t,
            ]
            launcher.restype = ctypes.c_int
            self.launchers[kernel] = launcher
        self._map_stacks: Any = loaded.map_block_stacks
        self._map_stacks.restype = ctypes.c_void_p

    def launch(self, packed: abi.Packed, blocks: int, threads: int, seed: int) -> None:
        """Run one grid. Raises EmulationError where its threads cannot go on."""
        launcher = self.launchers[packed.kernel]
        with _stacks.lock:
            stacks = _stacks.address(self._map_stacks)
            failed = launcher(packed.words, stacks, blocks, threads, seed, self.error, _ERROR_BYTES)
            if failed:
                raise EmulationError(f"{packed.kernel}: {self.error.value.decode()}")

    def take_blocks(self) -> frozenset[int]:
        """The basic blocks that ran since the last call, by address; for a build that traces."""
        reached = np.ctypeslib.as_array(
            (ctypes.c_ubyte * _CODE_BYTES).in_dll(self._loaded, "kv_reached")
        )
        blocks = np.flatnonzero(reached)
        reached[blocks] = 0
        return frozenset(blocks.tolist())


class Stacks:
    """The stacks of a block's threads, for every build: a set each would exhaust the mappings.

    Their lock is held by the one launch that runs.
    """

    def __init__(self) -> None:
        self.lock = Lock()
        self._address: int | None = None

    def address(self, map_stacks: Callable[[], int | None]) -> int:
        """Where they lie, mapped on the first call. Raises EmulationError where they cannot be."""
        if self._address is None:
            self._address = map_stacks()
        if self._address is None:
            raise EmulationError("no memory for the stacks of a block's threads")
        return self._address


_stacks = Stacks()
_libraries: dict[Path, Library] = {}
_libraries_lock = Lock()


def load_library(path: Path) -> Library:
    """The library at ``path``, the same object for every caller in this process."""
    with _libraries_lock:
        library = _libraries.get(path)
        if library is None:
            library = _libraries[path] = Library(path)
        return library


class Launches(Protocol):
    """What runs the grids of a build."""

    def launch(self, packed: abi.Packed, blocks: int, threads: int, seed: int) -> None: ...


class EmulatedKernels(CheckedLaunchers):
    """A target: the two launchers of one build, and how its grids are run.

    ``block_threads`` (whole warps, up to what the build was made for), ``max_blocks``,
    ``schedule_seed`` (the order of blocks, warps and threads; 0 is the natural one) and
    ``contract`` (the revision whose refusals hold) may be set between launches; `set_schedule` sets
    the first three.
    """

    def __init__(
        self,
        library: Launches,
        max_sources: int,
        max_block_threads: int,
        geometries: Sequence[Geometry],
    ) -> None:
        super().__init__(
            contract=DOCUMENTED,
            max_sources=max_sources,
            run_write=lambda launch: self._launch(launch, abi.pack_write(launch, max_sources)),
            run_verify=lambda launch: self._launch(launch, abi.pack_verify(launch, max_sources)),
        )
        self.max_block_threads = max_block_threads
        self._geometries = geometries
        self._library = library
        self.set_schedule(0)

    def set_schedule(self, seed: int) -> None:
        """Run launches in the order of this seed, and on the geometry that it picks."""
        self.schedule_seed = seed
        self.block_threads, self.max_blocks = self._geometries[seed % len(self._geometries)]

    def take_blocks(self) -> frozenset[int]:
        """The basic blocks that ran since the last call, by address; for a build that traces."""
        assert isinstance(self._library, Library)
        return self._library.take_blocks()

    def _launch(self, launch: WriteLaunch | VerifyLaunch, packed: abi.Packed) -> None:
        device = launch.context.canary_buf.device
        if device.type != "cpu":
            raise ValueError(f"kv-canary: canary_buf must be on the CPU, got {device}")
        threads = self.block_threads
        if not 0 < threads <= self.max_block_threads:
            raise ValueError(f"block_threads must be 32 to {self.max_block_threads}, got {threads}")
        blocks = packed.blocks(threads // abi.WARP_LANES, self.max_blocks)
        self._library.launch(packed, blocks, threads, self.schedule_seed)


def build(
    max_sources: int | None = None,
    patches: Sequence[Patch] = (),
    *,
    geometry: Geometry | None = None,
    flags: Sequence[str] = (),
    trace_blocks: bool = False,
) -> EmulatedKernels:
    """Compile the source (or take it from the cache) and load it.

    ``max_sources`` is the bound on sources, 1 to 32; ``geometry`` is the only one to run on, where
    a schedule seed is not to pick it; ``flags`` are further compiler options. With ``trace_blocks``
    (g++ 12 or newer) it knows which basic blocks ran, at half the speed.
    Raises CompilerMissing, CompileError or PatchError.
    """
    traced = _TRACE_FLAGS if trace_blocks else ()
    return load(build_path(max_sources, patches, geometry=geometry, flags=(*traced, *flags)))


class Built(NamedTuple):
    """A build that is not loaded yet: its library, and how its grids are run."""

    path: Path
    max_sources: int
    max_block_threads: int
    geometries: tuple[Geometry, ...]


def build_path(
    max_sources: int | None = None,
    patches: Sequence[Patch] = (),
    *,
    geometry: Geometry | None = None,
    flags: Sequence[str] = (),
) -> Built:
    """As `build`, but nothing is loaded."""
    bound = abi.source_bound(max_sources)
    threads = geometry.block_threads if geometry else MOST_BLOCK_THREADS
    text = translation_unit(apply_patches(read_sources(), patches), EMULATED_ROOT)
    path = build_library(text, (*abi.definitions(bound, threads), *flags))
    return Built(path, bound, threads, (geometry,) if geometry else GEOMETRIES)


def load(built: Built) -> EmulatedKernels:
    """The kernels of a build, in this process."""
    return EmulatedKernels(
        load_library(built.path), built.max_sources, built.max_block_threads, built.geometries
    )
