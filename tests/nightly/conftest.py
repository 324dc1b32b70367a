"""A copy of the repository in which a workflow's run steps can be executed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "build", "out", "__pycache__", ".*_cache")

EXPRESSIONS = {"inputs.seconds || '1800'": "1800", "matrix.target": "emulated"}


def steps_of(workflow: str) -> dict[str, dict[str, str]]:
    """The run steps of each job of a workflow, by name."""
    text = (ROOT / ".github" / "workflows" / workflow).read_text()
    jobs = yaml.safe_load(text)["jobs"]
    return {
        job: {step["name"]: step["run"] for step in what["steps"] if "run" in step}
        for job, what in jobs.items()
    }


class Repository:
    """A git repository with a remote of its own, and this environment as its ``.venv``."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "repository"
        self.remote = folder / "remote.git"
        shutil.copytree(ROOT, self.path, ignore=LEFT_OUT, symlinks=True)
        for path in sorted((self.path / "reports" / "corpus").iterdir())[60:]:
            path.unlink()
        self._link_environment()
        git = ["git", "-c", "user.name=test", "-c", "user.email=test@localhost"]
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", self.remote], check=True)
        subprocess.run(["git", "init", "-q", "-b", "main"], cwd=self.path, check=True)
        subprocess.run(["git", "remote", "add", "origin", self.remote], cwd=self.path, check=True)
        subprocess.run(["git", "add", "-A"], cwd=self.path, check=True)
        subprocess.run([*git, "commit", "-q", "-m", "start"], cwd=self.path, check=True)
        subprocess.run(["git", "push", "-q", "origin", "HEAD"], cwd=self.path, check=True)

    def _link_environment(self) -> None:
        venv = self.path / ".venv"
        venv.mkdir()
        (venv / "bin").symlink_to(Path(sys.executable).parent)
        for mark in (".installed", ".compared"):
            (venv / mark).touch()

    def run(self, command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """A run step as a runner would execute it."""
        text = re.sub(r"\$\{\{ *(.*?) *\}\}", lambda match: EXPRESSIONS[match[1]], command)
        plain = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTEST_", "GITHUB_"))
        }
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", text],
            cwd=self.path,
            env=plain | {"PATH": f"{self.path}/.venv/bin:{os.environ['PATH']}"} | environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def published(self, path: str) -> str:
        """A file as the remote has it."""
        shown = subprocess.run(
            ["git", "--git-dir", self.remote, "show", f"main:{path}"],
            capture_output=True,
            text=True,
            check=True,
        )
        return shown.stdout


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


@pytest.fixture
def workflow_steps() -> Mapping[str, Any]:
    return {name: steps_of(name) for name in ("ci.yml", "nightly.yml")}
