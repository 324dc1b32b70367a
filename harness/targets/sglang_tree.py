"""Where sglang's source is: the installed package, a checkout, or either with a patch applied.

A patch is a unified diff as ``git diff`` makes one in sglang's repository: its paths begin with
``python/sglang``. It is applied to copies in a temporary folder, never to the tree itself.
"""

from __future__ import annotations

import atexit
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

from kv_canary_fuzz.reference.contract import DOCUMENTED, RELEASED, Contract

from .target import TargetError

SUPPORTED = "0.5.23"
KV_CANARY = Path("kernels/ops/kv_canary")
"""The subpackage, from the folder of the package ``sglang``."""

_COPIED = (KV_CANARY, Path("kernels/jit"))
"""What a patched copy has whole: the launchers with their reference, and the kernels with their
loader, which finds the kernels beside itself."""

_IN_REPOSITORY = Path("python/sglang")
_PATCHED_FILE = re.compile(r"^(?:---|\+\+\+) [ab]/python/sglang/(\S+)", re.MULTILINE)
_STRIDED_ROWS = "rows must be packed"
"""A refusal that only revisions with strided rows have."""

_SUPPORT = (
    f"supported are sglang {SUPPORTED} (pip install --no-deps sglang=={SUPPORTED} "
    "apache-tvm-ffi==0.1.11 msgspec) and source trees (--sglang PATH)"
)


@dataclass(frozen=True, kw_only=True)
class Tree:
    """One copy of sglang's source.

    ``folders`` are those in which its files are looked for, the first of them first; each has what
    the folder of the package ``sglang`` has. ``title`` says what it is.
    """

    folders: tuple[Path, ...]
    title: str

    @property
    def contract(self) -> Contract:
        """The revision that its launchers follow, by the words of their refusals."""
        text = self.file(KV_CANARY / "verify.py").read_text(encoding="utf-8")
        return RELEASED if _STRIDED_ROWS in text else DOCUMENTED

    def file(self, path: Path) -> Path:
        """A file of the package; in the last of the folders where there is none."""
        places = [folder / path for folder in self.folders]
        return next((place for place in places if place.exists()), places[-1])


def installed_tree() -> Tree:
    """The installed package. Raises TargetError where it is missing, too old or unknown."""
    root = installed_root()
    if root is None:
        raise TargetError(f"sglang is not installed; {_SUPPORT}")
    try:
        version = importlib.metadata.version("sglang")
    except importlib.metadata.PackageNotFoundError:
        version = "of an unknown version"
    _require_kv_canary(root, f"sglang {version}")
    if version != SUPPORTED:
        raise TargetError(f"sglang {version} is installed; {_SUPPORT}")
    return Tree(folders=(root,), title=f"sglang {version}")


def checkout_tree(path: Path) -> Tree:
    """A source tree: ``path`` is the repository, its folder ``python``, or the package itself.

    Raises TargetError where there is no sglang with kv-canary kernels.
    """
    candidates = (path / _IN_REPOSITORY, path / "sglang", path)
    root = next((c.resolve() for c in candidates if (c / "kernels").is_dir()), None)
    if root is None:
        raise TargetError(
            f"{path} is no source tree of sglang: it has neither python/sglang nor sglang with a "
            f"folder kernels; {_SUPPORT}"
        )
    _require_kv_canary(root, f"the source tree {root}")
    return Tree(folders=(root,), title=f"sglang's source tree {root}")


def patched_tree(tree: Tree, patch: Path) -> Tree:
    """``tree`` with a unified diff applied to copies of the files that it may change.

    The copies go when the process ends. Raises TargetError where the diff cannot be read or does
    not apply.
    """
    try:
        names = sorted(set(_PATCHED_FILE.findall(patch.read_text(encoding="utf-8"))))
    except (OSError, UnicodeDecodeError) as error:
        raise TargetError(f"patch {patch} cannot be read: {error}") from error
    if not names:
        raise TargetError(
            f"patch {patch} changes no file under python/sglang: "
            "it must be a unified diff, as git diff makes one in sglang's repository"
        )
    temporary = Path(mkdtemp(prefix="kv-canary-fuzz-sglang-"))
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    copy = temporary / _IN_REPOSITORY
    ignored = shutil.ignore_patterns("__pycache__")
    for folder in _COPIED:
        shutil.copytree(tree.file(folder), copy / folder, ignore=ignored)
    for name in names:
        source = tree.file(Path(name))
        if source.is_file() and not (copy / name).exists():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, copy / name)
    _apply(patch, temporary)
    return Tree(folders=(copy, *tree.folders), title=f"{tree.title} with {patch}")


def _apply(patch: Path, folder: Path) -> None:
    command = ["git", "apply", "--whitespace=nowarn", str(patch.resolve())]
    ceiling = os.environ | {"GIT_CEILING_DIRECTORIES": str(folder.parent)}
    try:
        done = subprocess.run(
            command, cwd=folder, env=ceiling, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise TargetError("a patch is applied by git, which is not installed") from None
    if done.returncode:
        reason = "; ".join(done.stderr.strip().splitlines())
        raise TargetError(f"patch {patch} does not apply: {reason}")


def installed_root() -> Path | None:
    """The folder of the installed package, whatever copy of it is imported; None for none."""
    imported = sys.modules.pop("sglang", None)
    try:
        spec = importlib.util.find_spec("sglang")
    finally:
        if imported is not None:
            sys.modules["sglang"] = imported
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def _require_kv_canary(root: Path, what: str) -> None:
    if not (root / KV_CANARY / "verify.py").is_file():
        raise TargetError(f"{what} has no kv-canary kernels ({KV_CANARY}); {_SUPPORT}")
