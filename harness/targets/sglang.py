"""sglang's kv-canary launchers, of the installed package or of another copy of its source.

Importing sglang proper wants about ninety other packages. Where they are installed it is imported
as any package is. Otherwise, and for source trees, only its kv-canary modules and the handful of
files that they need are loaded: packages on the way to them are entered into ``sys.modules`` as
bare folders, so that their own initialisation does not run. Its CUDA kernels are compiled by its
own loader, which needs nvcc, ninja and the package apache-tvm-ffi.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import sys
from collections.abc import Callable
from functools import lru_cache, wraps
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from packaging.requirements import Requirement

from .sglang_tree import Tree, checkout_tree, installed_root, installed_tree, patched_tree
from .sglang_trial import try_launches
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


class Package:
    """The modules of one tree. Those of one tree at a time stand in ``sys.modules``."""

    _entered: Package | None = None

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._modules: dict[str, ModuleType] = {}
        self._prepared = False

    def enter(self) -> None:
        """Put this tree's modules in the place of another's: launchers import more when called."""
        if Package._entered is self:
            return
        if Package._entered is None and _is_imported_from(self.tree):
            Package._entered, self._prepared = self, True
            return
        out = {n: sys.modules.pop(n) for n in list(sys.modules) if n.split(".")[0] == "sglang"}
        if Package._entered is not None:
            Package._entered._modules = out
        sys.modules.update(self._modules)
        Package._entered = self

    def launchers(self, *offered: tuple[str, str]) -> list[Launcher]:
        """Launchers by module and name. Raises TargetError where they cannot be imported."""
        self.enter()
        if not self._prepared:
            self._prepared = True
            if not is_fully_installed(self.tree):
                self._enter_bare_packages()
        found = []
        for module, name in offered:
            try:
                function = getattr(importlib.import_module(f"{PACKAGE}.{module}"), name)
            except (ImportError, AttributeError, SyntaxError) as error:
                raise TargetError(f"{self.tree.title} cannot be imported: {error}") from error
            found.append(self._within(function))
        return found

    def _within(self, function: Callable[..., None]) -> Launcher:
        @wraps(function)
        def launch(**arguments: Any) -> None:
            self.enter()
            function(**arguments)

        return launch

    def _enter_bare_packages(self) -> None:
        for name in _BARE:
            module, inside = ModuleType(name), name.split(".")[1:]
            module.__path__ = [str(folder.joinpath(*inside)) for folder in self.tree.folders]
            module.__spec__ = ModuleSpec(name, None, is_package=True)
            module.__spec__.submodule_search_locations = module.__path__
            sys.modules[name] = module
        sys.modules[_COMMON] = _device_facts()


def load_sglang_reference(where: str = "") -> tuple[Launcher, Launcher, Tree]:
    """The write and verify launchers of sglang's torch reference, and where they are from.

    ``where`` is empty for the installed package, else ``PATH``, ``PATH::PATCH`` or ``::PATCH``.
    Raises TargetError where there is no such sglang, or where it cannot be imported.
    """
    package = _package(where)
    write, verify = package.launchers(
        ("write_ref", "launch_canary_write_kernel_torch_reference"),
        ("verify_ref", "launch_canary_verify_kernel_torch_reference"),
    )
    return write, verify, package.tree


def load_sglang_kernels(where: str = "") -> tuple[Launcher, Launcher, Tree]:
    """The write and verify launchers of sglang's CUDA kernels, compiled, and where they are from.

    Raises TargetError as for the reference, or where there is no GPU or no loader for them, or with
    the compiler's message where they do not compile.
    """
    package = _package(where)
    if not torch.cuda.is_available():
        raise TargetError("sglang's kernels need a GPU, and torch sees no CUDA device")
    if importlib.util.find_spec("tvm_ffi") is None:
        raise TargetError("sglang's kernels need its loader: pip install apache-tvm-ffi")
    write, verify = package.launchers(
        ("write", "launch_canary_write_kernel"), ("verify", "launch_canary_verify_kernel")
    )
    try_launches(write, verify, "cuda", package.tree.title)
    return write, verify, package.tree


@lru_cache(maxsize=8)
def _package(where: str) -> Package:
    path, _, patch = where.partition("::")
    tree = checkout_tree(Path(path)) if path else installed_tree()
    return Package(patched_tree(tree, Path(patch)) if patch else tree)


def is_fully_installed(tree: Tree) -> bool:
    """Whether ``tree`` is the installed package and all that it depends on is installed too."""
    if tree.folders != (installed_root(),):
        return False
    for line in importlib.metadata.requires("sglang") or ():
        needed = Requirement(line)
        if needed.marker is not None and not needed.marker.evaluate({"extra": ""}):
            continue
        try:
            importlib.metadata.version(needed.name)
        except importlib.metadata.PackageNotFoundError:
            return False
    return True


def _is_imported_from(tree: Tree) -> bool:
    """Whether this process has imported ``tree`` already, as any package is imported."""
    loaded = getattr(sys.modules.get("sglang"), "__file__", None)
    return loaded is not None and (Path(loaded).parent,) == tree.folders


def _device_facts() -> ModuleType:
    """The two questions about the device that sglang's kernel loader asks its general utilities."""
    common = ModuleType(_COMMON)
    vars(common)["is_cuda"] = torch.cuda.is_available
    vars(common)["get_cuda_version"] = lambda: tuple(
        map(int, (torch.version.cuda or "0").split("."))
    )
    return common
