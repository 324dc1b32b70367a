"""The kv-canary subpackage of an installed sglang, without sglang's own initialisation.

Its CUDA kernels are compiled by its own loader when they are first launched, which needs nvcc,
ninja and the package apache-tvm-ffi.

Importing sglang proper wants about ninety other packages. Its kv-canary modules need a handful of
its files, so packages on the way to them are entered into ``sys.modules`` as bare folders.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import torch

from .target import Launcher, TargetError

PACKAGE = "sglang.kernels.ops.kv_canary"
_BARE = (
    "sglang",
    "sglang.kernels",
    "sglang.kernels.ops",
    PACKAGE,
    "sglang.srt",
    "sglang.srt.utils",
)
_COMMON = "sglang.srt.utils.common"


def load_sglang_reference() -> tuple[Launcher, Launcher]:
    """The write and verify launchers of sglang's torch reference.

    Raises TargetError where sglang is missing, has no kv-canary, or cannot be imported.
    """
    write, verify = _import_modules("write_ref", "verify_ref")
    return (
        write.launch_canary_write_kernel_torch_reference,
        verify.launch_canary_verify_kernel_torch_reference,
    )


def load_sglang_kernels() -> tuple[Launcher, Launcher]:
    """The write and verify launchers of sglang's CUDA kernels.

    Raises TargetError as for the reference, or where there is no GPU or no loader for them.
    """
    if not torch.cuda.is_available():
        raise TargetError("sglang's kernels need a GPU, and torch sees no CUDA device")
    if importlib.util.find_spec("tvm_ffi") is None:
        raise TargetError("sglang's kernels need its loader: pip install apache-tvm-ffi")
    write, verify = _import_modules("write", "verify")
    return write.launch_canary_write_kernel, verify.launch_canary_verify_kernel


def _import_modules(*names: str) -> list[ModuleType]:
    root = _installed_root()
    folder = root.joinpath(*PACKAGE.split(".")[1:])
    if not folder.is_dir():
        raise TargetError(f"the installed sglang has no {PACKAGE}: supported is 0.5.23")
    _enter_bare_packages(root)
    try:
        return [importlib.import_module(f"{PACKAGE}.{name}") for name in names]
    except ImportError as error:
        raise TargetError(f"sglang's kv-canary cannot be imported: {error}") from error


def _installed_root() -> Path:
    spec = importlib.util.find_spec("sglang") if "sglang" not in sys.modules else None
    if spec is not None and spec.origin:
        return Path(spec.origin).parent
    loaded = sys.modules.get("sglang")
    if loaded is not None and loaded.__path__:
        return Path(loaded.__path__[0])
    raise TargetError("sglang is not installed: pip install --no-deps sglang==0.5.23")


def _enter_bare_packages(root: Path) -> None:
    for name in _BARE:
        if name not in sys.modules:
            module = ModuleType(name)
            module.__path__ = [str(root.joinpath(*name.split(".")[1:]))]
            sys.modules[name] = module
    if _COMMON not in sys.modules:
        sys.modules[_COMMON] = _device_facts()


def _device_facts() -> ModuleType:
    """The two questions about the device that sglang's kernel loader asks its general utilities."""
    common = ModuleType(_COMMON)
    vars(common)["is_cuda"] = torch.cuda.is_available
    vars(common)["get_cuda_version"] = lambda: tuple(
        map(int, (torch.version.cuda or "0").split("."))
    )
    return common
