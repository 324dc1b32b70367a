"""Every run step of the workflows, executed here; and three nights in a row."""

from __future__ import annotations

import json
import shutil
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.nightly

KERNEL = """
from kv_canary_fuzz.reference import scalar_model

launch_canary_verify_kernel = scalar_model.launch_canary_verify_kernel


def launch_canary_write_kernel(**arguments):
    scalar_model.launch_canary_write_kernel(**arguments)
"""
BUG = """    if len(arguments["context"].real_kv_sources) == 2:
        arguments["context"].slot_run_counter.add_(1)
"""
SIGNATURE = "write: slot_run_counter"

Steps = Mapping[str, Any]


def test_every_run_step_is_known(workflow_steps: Steps) -> None:
    names = {
        f"{workflow}: {job}: {name}"
        for workflow, jobs in workflow_steps.items()
        for job, steps in jobs.items()
        for name in steps
    }
    assert names == {
        "ci.yml: test: Lint, types, tests, and the pull-request campaign among them",
        "nightly.yml: campaign: Install",
        "nightly.yml: campaign: Replay every committed reproducer",
        "nightly.yml: campaign: Fuzz, the corpus first",
        "nightly.yml: mutants: Install",
        "nightly.yml: mutants: The board of planted bugs",
        "nightly.yml: keep: Install",
        "nightly.yml: keep: Merge the corpora and write the ledger",
        "nightly.yml: keep: Commit them",
    }, "a step that is not executed below"


def test_the_ci_step_lints_and_tests(
    repository: Any, workflow_steps: Steps, tmp_path: Path
) -> None:
    """What it calls is this very suite, so ``make`` only says here what it was asked for."""
    asked = tmp_path / "asked"
    shims = tmp_path / "shims"
    shims.mkdir()
    real = shutil.which("make")
    (shims / "make").write_text(f'#!/bin/sh\necho "$@" >> {asked}\nexec {real} -n "$@"\n')
    (shims / "make").chmod(0o755)
    [command] = workflow_steps["ci.yml"]["test"].values()
    path = f"{shims}:{Path(str(real)).parent}:/usr/bin:/bin"
    ran = repository.run(command, PATH=path, CI="true")
    assert ran.returncode == 0, ran.stderr
    assert asked.read_text().splitlines() == ["lint", "test"]
    assert "check-jsonschema --builtin-schema vendor.github-workflows" in ran.stdout


def test_the_mutants_step(repository: Any, workflow_steps: Steps) -> None:
    install, board = workflow_steps["nightly.yml"]["mutants"].values()
    assert repository.run(install).returncode == 0
    ran = repository.run(f"{board} --only token_truncated --seeds 1")
    assert ran.returncode == 0, ran.stdout
    assert "100.0 %" in ran.stdout


def night(repository: Any, steps: Steps, target: str) -> tuple[dict[str, int], Any]:
    """One night: exit statuses by step, and the run that it left."""
    shutil.rmtree(repository.path / "reports" / "out", ignore_errors=True)
    environment = {
        "NAME": "mine",
        "TARGET": target,
        "SECONDS_EACH": "1",
        "PYTEST_ADDOPTS": "-p no:cacheprovider",
        "GITHUB_STEP_SUMMARY": str(repository.path.parent / "summary.md"),
    }
    status = {}
    for name, command in steps["nightly.yml"]["campaign"].items():
        ran = repository.run(command, **environment)
        status[name] = ran.returncode
        assert ran.returncode in (0, 1), ran.stdout + ran.stderr
    run = json.loads((repository.path / "reports/out/mine/run.json").read_text())
    keep(repository, steps)
    return status, run


def keep(repository: Any, steps: Steps) -> None:
    """The job that keeps what the night found, on what upload and download would give it."""
    artifact = repository.path / "nightly" / "nightly-mine"
    shutil.copytree(repository.path / "reports/out", artifact / "out")
    shutil.copytree(repository.path / "reports/corpus", artifact / "corpus")
    for name, command in steps["nightly.yml"]["keep"].items():
        ran = repository.run(command)
        assert ran.returncode == 0, f"{name}: {ran.stdout}{ran.stderr}"
    shutil.rmtree(repository.path / "nightly")


def entries(repository: Any) -> list[dict[str, Any]]:
    """What the published ledger has of the kernel."""
    found = tomllib.loads(repository.published("reports/ledger.toml"))["findings"]
    return [entry for entry in found if entry["target"] == "mykernel"]


def test_three_nights_in_a_row(repository: Any, workflow_steps: Steps) -> None:
    kernel = repository.path / "mykernel.py"
    kernel.write_text(KERNEL + BUG)
    replay, fuzz = "Replay every committed reproducer", "Fuzz, the corpus first"

    status, run = night(repository, workflow_steps, "mykernel")
    assert (status[replay], status[fuzz]) == (0, 1)
    [finding] = run["findings"]
    assert (finding["signature"], finding["standing"]) == (SIGNATURE, "new")
    assert run["corpus"]["replayed"] == 60
    assert run["corpus"]["added"] > 0
    [entry] = entries(repository)
    assert (entry["signature"], entry["target"], entry["state"]) == (
        *(SIGNATURE, "mykernel", "tolerated"),
    )
    kept = json.loads(repository.published(f"reports/{entry['reproducer']}"))
    assert kept["signature"] == SIGNATURE

    status, run = night(repository, workflow_steps, "mykernel")
    assert (status[replay], status[fuzz]) == (0, 0)
    [finding] = run["findings"]
    assert (finding["signature"], finding["standing"]) == (SIGNATURE, "known")
    assert [note["outcome"] for note in run["ledger"]] == ["met"]
    assert len(entries(repository)) == 1

    kernel.write_text(KERNEL)
    status, run = night(repository, workflow_steps, "mykernel")
    assert (status[replay], status[fuzz]) == (1, 1)
    assert run["findings"] == []
    assert [(note["signature"], note["outcome"]) for note in run["ledger"]] == [
        (SIGNATURE, "fixed")
    ]
    [entry] = entries(repository)
    assert entry["state"] == "fixed"
    summary = (repository.path.parent / "summary.md").read_text()
    assert summary.count("1 new finding") == 1
    assert "Fixed: `write: slot_run_counter` no longer happens." in summary


def test_a_corpus_that_is_lost_fails_the_night(repository: Any, workflow_steps: Steps) -> None:
    fuzz = workflow_steps["nightly.yml"]["campaign"]["Fuzz, the corpus first"]
    shutil.rmtree(repository.path / "reports" / "corpus")
    ran = repository.run(fuzz, TARGET="scalar", NAME="mine", SECONDS_EACH="1")
    assert ran.returncode == 2
    assert ran.stderr.splitlines() == [
        "corpus reports/corpus is missing; `kv-canary-fuzz corpus init reports/corpus` makes one"
    ]
