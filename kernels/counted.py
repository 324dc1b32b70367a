"""Emulated builds that count which lines and branches of the CUDA source their launches reach.

Each kernel is a library of its own, with the functions that it uses and no others, as it is a
program of its own on a GPU: templates are counted as the kernel instantiates them.
"""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from time import monotonic

from . import abi
from .build import build_counted
from .emulated import GEOMETRIES, MOST_BLOCK_THREADS, EmulatedKernels, Library
from .gcov import LineCount, find_gcov, read_counts
from .source import EMULATED_ROOT, Patch, apply_patches, read_sources, translation_unit

LEAVE_SECONDS = 0.5
"""How often a process leaves what it has counted: one that is killed loses no more than that."""

_EXPORT = "KV_EXPORT_LAUNCH"
_NOTES, _DATA = ".gcno", ".gcda"


class CountedLibrary:
    """A library for each kernel, whose counts go to files in ``folder``."""

    def __init__(self, paths: dict[str, Path]) -> None:
        self._libraries = {kernel: Library(path, (kernel,)) for kernel, path in paths.items()}
        self._leave = [ctypes.CDLL(str(path)).leave_counts for path in paths.values()]
        self._left = monotonic()

    def launch(self, packed: abi.Packed, blocks: int, threads: int, seed: int) -> None:
        """Run one grid. Raises EmulationError where its threads cannot go on."""
        self._libraries[packed.kernel].launch(packed, blocks, threads, seed)
        if monotonic() - self._left >= LEAVE_SECONDS:
            self.leave_counts()

    def leave_counts(self) -> None:
        """Add what was counted since the last time to the files, together with other processes."""
        for leave in self._leave:
            leave()
        self._left = monotonic()


_loaded: dict[Path, CountedLibrary] = {}


def build(folder: Path, patches: Sequence[Patch] = ()) -> EmulatedKernels:
    """What `emulated.build` gives, with counters whose files are in ``folder``.

    A process counts into one folder: the place is part of its environment. Raises
    CountersUnavailable, CompilerMissing, CompileError or PatchError.
    """
    find_gcov()
    bound = abi.source_bound(None)
    sources = apply_patches(read_sources(), patches)
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["GCOV_PREFIX"] = str(folder)
    os.environ["GCOV_PREFIX_STRIP"] = "1000"
    paths = {}
    for kernel in abi.KERNELS:
        text = translation_unit(_of_one_kernel(sources, kernel), EMULATED_ROOT)
        made = build_counted(text, kernel, abi.definitions(bound, MOST_BLOCK_THREADS))
        _place(made.notes, folder / f"{kernel}{_NOTES}")
        paths[kernel] = made.library
    library = _loaded.setdefault(folder, CountedLibrary(paths))
    return EmulatedKernels(library, bound, MOST_BLOCK_THREADS, GEOMETRIES)


def leave_counts() -> None:
    """Add what this process counted since the last time to the files."""
    for library in _loaded.values():
        library.leave_counts()


def read_folder(folder: Path) -> dict[str, tuple[LineCount, ...]]:
    """Of each kernel the lines of the CUDA source that it has, as all processes counted them.

    Empty where nothing was built to count into ``folder``. Raises CountersUnavailable.
    """
    leave_counts()
    names = {path.name for path in (Path(__file__).parent / "csrc").iterdir()}
    notes = {kernel: folder.absolute() / f"{kernel}{_NOTES}" for kernel in abi.KERNELS}
    return {kernel: read_counts(path, names) for kernel, path in notes.items() if path.exists()}


def _of_one_kernel(sources: dict[str, str], kernel: str) -> dict[str, str]:
    """The sources with no other kernel exported."""
    kept = [
        line
        for line in sources[EMULATED_ROOT].splitlines()
        if not line.startswith(_EXPORT) or line == f"{_EXPORT}({kernel})"
    ]
    return sources | {EMULATED_ROOT: "\n".join(kept) + "\n"}


def _place(notes: Path, path: Path) -> None:
    """Copy by a rename, so that several processes may do it at once; drop counts of other notes."""
    if path.exists() and path.read_bytes() == notes.read_bytes():
        return
    path.with_suffix(_DATA).unlink(missing_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    shutil.copyfile(notes, partial)
    os.replace(partial, path)
