"""The kv-canary kernels: the CUDA source, built for the host and for GPUs, and its launchers."""

from __future__ import annotations

from .launchers import launch_canary_verify_kernel, launch_canary_write_kernel

__all__ = ["launch_canary_verify_kernel", "launch_canary_write_kernel"]
