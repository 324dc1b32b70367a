"""What can keep the kernels from being built or run, each error saying whose fault it is."""

from __future__ import annotations


class CompilerMissing(RuntimeError):
    """This machine has no C++ compiler for the emulated build; the message says what to install."""


class CompileError(RuntimeError):
    """The compiler refused the kernel source; the message ends with its log."""


class CountersUnavailable(RuntimeError):
    """This machine cannot count lines and branches; the message says what to install."""


class GpuUnavailable(RuntimeError):
    """This machine cannot run the GPU build; the message says what is missing."""


UNAVAILABLE = (CompilerMissing, CompileError, CountersUnavailable, GpuUnavailable)
"""What this machine lacks, or a source that it cannot build."""


class PatchError(ValueError):
    """A patch does not apply to the kernel source."""


class EmulationError(RuntimeError):
    """The threads of an emulated block wait for each other; the message says who waits where."""
