"""Compiling the kernels for the host, with a cache that is addressed by content.

The cache lies in ``$KV_CANARY_FUZZ_CACHE``, else in ``kv-canary-fuzz`` under ``$XDG_CACHE_HOME`` or
``~/.cache``. A library gets there by a rename within the folder, so any number of processes may
build one at once: each finds a whole library or none.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from .errors import CompileError, CompilerMissing

_COMPILERS = ("g++", "c++", "clang++")
_FLAGS = (
    "-std=c++17",
    "-O2",
    "-shared",
    "-fPIC",
    "-fno-strict-aliasing",
    "-fno-exceptions",
    "-fno-rtti",
    "-fvisibility=hidden",
)
_COUNTING = ("-O0", "--coverage", "-DKV_COVERAGE")
"""Without optimisation, so that a branch of the source is a branch of the program."""

_LOG_CHARACTERS = 4000


class Counted(NamedTuple):
    """A library with counters, and the compiler's notes on what they count."""

    library: Path
    notes: Path


def cache_folder() -> Path:
    """Where built libraries are kept; it need not exist."""
    own = os.environ.get("KV_CANARY_FUZZ_CACHE")
    if own:
        return Path(own)
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "kv-canary-fuzz"


def find_compiler() -> tuple[str, ...]:
    """The words of the C++ compiler's command: ``$CXX``, or the first one on the path.

    Raises CompilerMissing, with what to install, where there is none.
    """
    asked = shlex.split(os.environ.get("CXX", ""))
    for words in [asked] if asked else [[name] for name in _COMPILERS]:
        path = shutil.which(words[0])
        if path is not None:
            return (path, *words[1:])
    tried = f"CXX={asked[0]}" if asked else ", ".join(_COMPILERS)
    raise CompilerMissing(
        f"no C++ compiler found ({tried}): install g++, for example with 'apt install g++', "
        "or set CXX to one"
    )


def build_library(text: str, flags: Sequence[str] = ()) -> Path:
    """The shared library of a translation unit, compiled unless the cache has it.

    Raises CompilerMissing or CompileError.
    """
    compiler = find_compiler()
    command = (*compiler, *_FLAGS, *flags)
    library = cache_folder() / f"emulated-{_digest(text, command, compiler)}.so"
    if not library.exists():
        library.parent.mkdir(parents=True, exist_ok=True)
        _compile(command, text, library)
    return library


def build_counted(text: str, name: str, flags: Sequence[str] = ()) -> Counted:
    """The same with counters of lines and branches, which it keeps in a file called ``name``.

    Raises CompilerMissing or CompileError.
    """
    compiler = find_compiler()
    command = (*compiler, *_FLAGS, *_COUNTING, *flags)
    library = cache_folder() / f"counted-{name}-{_digest(text, command, compiler)}.so"
    notes = library.with_suffix(".gcno")
    if not library.exists():
        library.parent.mkdir(parents=True, exist_ok=True)
        _compile_counted(command, text, name, Counted(library, notes))
    return Counted(library, notes)


def _digest(text: str, command: Sequence[str], compiler: tuple[str, ...]) -> str:
    identity = (text, shlex.join(command), compiler_version(compiler))
    return hashlib.sha256("\0".join(identity).encode()).hexdigest()[:32]


@lru_cache(maxsize=16)
def compiler_version(compiler: tuple[str, ...]) -> str:
    """What the compiler says of itself."""
    shown = subprocess.run([*compiler, "--version"], capture_output=True, text=True, check=False)
    return shown.stdout


def _compile(command: Sequence[str], text: str, library: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="build-", dir=library.parent) as folder:
        output = Path(folder) / library.name
        _run([*command, "-x", "c++", "-", "-o", str(output)], text)
        os.replace(output, library)


def _compile_counted(command: Sequence[str], text: str, name: str, made: Counted) -> None:
    """The notes come before the library, since a library that is there counts as whole."""
    with tempfile.TemporaryDirectory(prefix="build-", dir=made.library.parent) as name_of_folder:
        folder = Path(name_of_folder)
        (folder / f"{name}.cpp").write_text(text, encoding="utf-8")
        _run([*command, "-c", f"{name}.cpp", "-o", f"{name}.o"], folder=folder)
        _run([*command, f"{name}.o", "-o", f"{name}.so"], folder=folder)
        os.replace(folder / f"{name}.gcno", made.notes)
        os.replace(folder / f"{name}.so", made.library)


def _run(command: Sequence[str], text: str | None = None, folder: Path | None = None) -> None:
    done = subprocess.run(
        command, input=text, cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        log = done.stderr.strip()[:_LOG_CHARACTERS]
        raise CompileError(f"{Path(command[0]).name} refused the kernel source:\n{log}")
