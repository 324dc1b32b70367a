"""Every command of the README and the docs, executed."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kv_canary_fuzz.harness.cli import main
from kv_canary_fuzz.harness.targets.sglang_tree import installed_root

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHELL = ("", "sh", "bash", "console")
COMMAND = re.compile(r"^(?:\$ )?((?:kv-canary-fuzz|pytest|make|python|pip) .*)$", re.MULTILINE)

MINE = """
from kv_canary_fuzz.reference.scalar_model import (
    launch_canary_verify_kernel,
    launch_canary_write_kernel,
)
"""

BUG = """\
--- /dev/null
+++ b/python/sglang/kernels/ops/kv_canary/planted.py
@@ -0,0 +1 @@
+BUGS = 1
"""
"""A patch for any version of sglang, which changes nothing that it does."""

SHORT = (
    (re.compile(r"--(kv-)?seconds \d+"), r"--\1seconds 1"),
    (re.compile(r"--cases \d{3,}"), "--cases 300"),
    (re.compile(r"^kv-canary-fuzz bench.*"), "kv-canary-fuzz bench --batches 2"),
    (re.compile(r"^make fuzz.*"), r"\g<0> SECONDS=1"),
    (re.compile(r"^make (test|bench|lint)"), r"make -n \1"),
    (re.compile(r"^(pytest .*tests/campaign)$"), r"\1 --kv-cases 300"),
    (re.compile(r"-n auto"), "-n0"),
    (re.compile(r"\bRUN\b"), "run"),
    (re.compile(r"\bFILE(\.kvcase\.json)?"), "finding.kvcase.json"),
    (re.compile(r"\bCORPUS\b"), "other-corpus"),
    (re.compile(r"(sglang )TREE\b"), rf"\1{installed_root()}"),
    (re.compile(r"reports/out/\S+\.kvcase\.json"), "finding.kvcase.json"),
)
NOT_RUN = ("pip install",)
"""Commands that change the machine."""


def commands(page: Path) -> Iterator[str]:
    """The commands in a page's blocks, without comments."""
    for language, block in BLOCK.findall(page.read_text()):
        for line in COMMAND.findall(block) if language in SHELL else ():
            yield line.partition("  #")[0].strip()


def shortened(command: str) -> str:
    for pattern, text in SHORT:
        command = pattern.sub(text, command)
    return command


def all_commands() -> list[str]:
    """Those of all pages, each once, as they are executed here."""
    found = [c for page in PAGES for c in commands(page) if not c.startswith(NOT_RUN)]
    return list(dict.fromkeys(map(shortened, found)))


def test_every_command_does_what_it_is_there_for(
    repository: Any,
    run_root: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (repository.path / "mine.py").write_text(MINE)
    shutil.copytree(run_root, repository.path / "run")
    [shrunk] = run_root.glob("findings/*/shrunk.kvcase.json")
    shutil.copy(shrunk, repository.path / "finding.kvcase.json")
    (repository.path / "bug.patch").write_text(BUG)
    monkeypatch.chdir(repository.path)
    for command in all_commands():
        if command.startswith("kv-canary-fuzz "):
            status, said = in_this_process(command, monkeypatch, capfd)
        else:
            ran = repository.run(command, PYTEST_ADDOPTS="-p no:cacheprovider -q")
            status, said = ran.returncode, ran.stdout + ran.stderr
        found = (0, 2) if command.startswith("make ") else (0, 1)  # make's word for a failure is 2
        assert status in found, f"{command}\n{said}"
        assert "Traceback" not in said, f"{command}\n{said}"


def in_this_process(
    command: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> tuple[int, str]:
    """A console script's exit status and output, without another import of torch."""
    monkeypatch.setattr(sys, "argv", shlex.split(command))
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0), "".join(capfd.readouterr())


def test_there_are_commands() -> None:
    found = all_commands()
    assert len(found) > 20
    assert not [c for c in found if re.search(r"\b[A-Z]{3,}\b(?!=)", c)], "a placeholder is left"
