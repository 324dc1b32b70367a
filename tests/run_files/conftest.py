"""Real means against files: small and read-only file systems, limits, processes that are killed."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

MAIN = [sys.executable, "-c", "from kv_canary_fuzz.harness.cli import main; main()"]

SMALL = 'mount -t tmpfs -o size="$SIZE" none disk || exit 99'
READ_ONLY = "mount --bind disk disk && mount -o remount,bind,ro disk || exit 99"
AFTER = '"$@"; status=$?; cp -a disk kept; exit $status'

AS_ANYBODY = ("setpriv", "--bounding-set=-dac_override", "--inh-caps=-dac_override")
"""What runs a command of root's so that permissions hold for it."""

Completed = subprocess.CompletedProcess[str]


@cache
def namespace() -> tuple[str, ...]:
    """What runs a command where it may mount; empty where nothing does."""
    for words in (("unshare", "--mount"), ("unshare", "--map-root-user", "--mount")):
        if (
            shutil.which("unshare")
            and not subprocess.run(
                [*words, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False
            ).returncode
        ):
            return words
    return ()


@pytest.fixture
def mounted(tmp_path: Path) -> Callable[..., Completed]:
    """Runs a command beside a folder ``disk`` that is a file system of its own.

    That is gone afterwards; what was in it is in ``kept``.
    """
    if not namespace():
        pytest.skip("this user may not mount; the tests with limits on file sizes stand in")
    (tmp_path / "disk").mkdir(exist_ok=True)

    def run(mount: str, words: Sequence[str], size: str = "") -> Completed:
        return subprocess.run(
            [*namespace(), "sh", "-c", f"{mount}; {AFTER}", "sh", *words],
            cwd=tmp_path,
            env={**os.environ, "SIZE": size},
            timeout=240,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.fixture
def read_only(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Callable[[Sequence[str]], tuple[Completed, str]]]:
    """Runs a command beside a folder ``disk`` that cannot be written to; and why not, in words.

    It is mounted so, or its permissions do it where that is not possible: root then gives up the
    right to write all the same.
    """
    disk = tmp_path / "disk"

    def run(words: Sequence[str]) -> tuple[Completed, str]:
        if namespace():
            mounted = request.getfixturevalue("mounted")
            return mounted(READ_ONLY, words), "Read-only file system"
        subprocess.run(["chmod", "-R", "a-w", str(disk)], check=True)
        plain = () if os.geteuid() else AS_ANYBODY
        ran = subprocess.run(
            [*plain, *words], cwd=tmp_path, timeout=240, capture_output=True, text=True, check=False
        )
        return ran, "Permission denied"

    yield run
    subprocess.run(["chmod", "-R", "u+w", str(disk)], check=True)


@contextmanager
def _at_most(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def files_of_at_most() -> Callable[[int], object]:
    """A context in which a file cannot grow beyond so many bytes: to write on is an OSError."""
    return _at_most


@pytest.fixture
def broken(tmp_path: Path, miscounting: str) -> list[str]:
    """A campaign of a target that miscounts where there are two sources, but for its folder."""
    (tmp_path / "broken.py").write_text(miscounting)
    return [*MAIN, "run", "--target", "broken", "--seed", "5", "--shrink-seconds", "5"]
