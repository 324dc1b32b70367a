"""What can keep the kernels from being built or run, each error saying whose fault it is."""

from __future__ import annotations


class CompilerMissing(RuntimeError):
    """This machine has no C++ compiler for the emulated build; the message says what to install."""


class CompileError(RuntimeError):
    """The compiler refused the kernel source; the message ends with its log."""


class GpuUnavailable(RuntimeError):
    """This machine cannot run the GPU build; the message says what is missing."""


class PatchError(ValueError):
    """A patch does not apply to the kernel source."""


class EmulationError(RuntimeError):
    """The threads of an emulated block wait for each other; the message says who waits where."""
