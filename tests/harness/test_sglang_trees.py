"""sglang from a source tree, from a patched copy of one, and from installations of other kinds."""

from __future__ import annotations

import shutil
import subprocess
import sys
from difflib import unified_diff
from pathlib import Path
from typing import Any

import pytest
import torch

from kv_canary_fuzz.harness.cli import main
from kv_canary_fuzz.harness.execution.fuzzer import Fuzzer
from kv_canary_fuzz.harness.findings.reproducer import Reproducer, write_reproducer
from kv_canary_fuzz.harness.judging.verdict import judge
from kv_canary_fuzz.harness.targets.builtin import load_target
from kv_canary_fuzz.harness.targets.sglang import is_fully_installed
from kv_canary_fuzz.harness.targets.sglang_targets import sglang_names
from kv_canary_fuzz.harness.targets.sglang_tree import (
    checkout_tree,
    installed_root,
    installed_tree,
)
from kv_canary_fuzz.harness.targets.sglang_trial import try_launches
from kv_canary_fuzz.harness.targets.target import TargetError
from kv_canary_fuzz.reference import DOCUMENTED, RELEASED
from kv_canary_fuzz.strategies.case import WriteStep
from kv_canary_fuzz.strategies.prng import case_at

WHEEL = installed_root()

pytestmark = pytest.mark.skipif(
    WHEEL is None,
    reason="sglang is not installed: pip install --no-deps sglang==0.5.23",
)

SUPPORT = (
    "supported are sglang 0.5.23 (pip install --no-deps sglang==0.5.23 apache-tvm-ffi==0.1.11 "
    "msgspec) and source trees (--sglang PATH)"
)
WRITE_REF = Path("kernels/ops/kv_canary/write_ref.py")
COUNTED = "slot_run_counter.add_(total_slots_written)"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository's folder with what the kv-canary modules need."""
    assert WHEEL is not None
    root = tmp_path_factory.mktemp("sglang")
    package = root / "python" / "sglang"
    ignored = shutil.ignore_patterns("__pycache__", "benchmark")
    for part in ("kernels/ops/kv_canary", "kernels/jit"):
        shutil.copytree(WHEEL / part, package / part, ignore=ignored)
    (package / "srt").mkdir()
    shutil.copy(WHEEL / "srt" / "environ.py", package / "srt")
    return root


def diff_of(checkout: Path, old: str, new: str, file: Path = WRITE_REF) -> str:
    """What git diff would say of one changed line."""
    name = f"python/sglang/{file}"
    text = (checkout / name).read_text()
    assert text.count(old) == 1
    sides = (side.splitlines(keepends=True) for side in (text, text.replace(old, new)))
    return "".join(unified_diff(*sides, f"a/{name}", f"b/{name}"))


@pytest.fixture
def patch(checkout: Path, tmp_path: Path) -> Path:
    """Counts a slot too many in every write launch."""
    path = tmp_path / "miscounts.patch"
    path.write_text(diff_of(checkout, COUNTED, COUNTED.replace("written)", "written + 1)")))
    return path


def signatures(name: str, cases: int = 24) -> set[str]:
    torch.set_num_threads(1)
    target = load_target(name)
    fuzzer = Fuzzer(target)
    made = fuzzer.generate(20, range(cases), "valid")
    return {judge(made[k], target).signature for k in fuzzer.failing(made)}


@pytest.mark.parametrize("inside", ["", "python", "python/sglang"])
def test_a_checkout_is_found_by_any_of_its_folders(checkout: Path, inside: str) -> None:
    name, _ = sglang_names("sglang-reference", "torch", checkout / inside, None)
    target = load_target(name)
    assert target.name == f"sglang-reference:{(checkout / inside).resolve()}"
    assert (target.device, target.contract) == ("cpu", RELEASED)


def test_trees_do_not_mix(checkout: Path, patch: Path) -> None:
    """The installed one, a checkout and its patched copy, in turn in one process."""
    patched, reference = sglang_names("sglang-reference", "sglang-reference", checkout, patch)
    assert signatures("sglang-reference") == set()
    assert signatures(patched) == {"write: slot_run_counter"}
    assert signatures(reference) == set()
    assert signatures("sglang-reference") == set()
    assert signatures(patched) == {"write: slot_run_counter"}


def test_a_patch_leaves_the_tree_alone(checkout: Path, patch: Path) -> None:
    before = (checkout / "python/sglang" / WRITE_REF).read_bytes()
    load_target(sglang_names("sglang-reference", "torch", checkout, patch)[0])
    assert (checkout / "python/sglang" / WRITE_REF).read_bytes() == before


def test_the_installed_package_can_be_patched_as_well(patch: Path) -> None:
    name, _ = sglang_names("sglang-reference", "torch", None, patch)
    assert name == f"sglang-reference:::{patch}"
    assert signatures(name) == {"write: slot_run_counter"}


def test_a_revision_without_strided_rows_is_recognised(checkout: Path, tmp_path: Path) -> None:
    root = tmp_path / "sglang"
    shutil.copytree(checkout / "python" / "sglang", root)
    verify = root / "kernels/ops/kv_canary/verify.py"
    verify.write_text(verify.read_text().replace("rows must be packed", "must be contiguous"))
    assert load_target(f"sglang-reference:{root}").contract is DOCUMENTED


def run_cli(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["kv-canary-fuzz", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def test_a_campaign_against_a_patched_copy(
    checkout: Path, patch: Path, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    options = ("--sglang", str(checkout), "--patch", str(patch), "--cases", "20", "--seed", "3")
    more = ("--workers", "1", "--shrink-seconds", "1", "--reference", "sglang-reference")
    assert run_cli(monkeypatch, "run", "--target", "sglang-reference", *options, *more) == 1
    said = capsys.readouterr().out
    assert "1 finding:\n  write: slot_run_counter" in said
    [file] = tmp_path.glob("reports/out/*/findings/*/shrunk.kvcase.json")
    assert run_cli(monkeypatch, "replay", str(file)) == 1
    again = ("--target", "sglang-reference", "--sglang", str(checkout))
    assert run_cli(monkeypatch, "replay", str(file), *again) == 0


def test_a_replayed_file_runs_on_the_tree_that_is_asked_for(
    checkout: Path, patch: Path, pytester: pytest.Pytester
) -> None:
    case = next(
        case
        for case in (case_at(3, index, "valid", DOCUMENTED) for index in range(20))
        if any(isinstance(step, WriteStep) for step in case.steps)
    )
    found = Reproducer(
        case=case, signature="write: slot_run_counter", target="sglang-reference", reference="torch"
    )
    write_reproducer(pytester.path / "counted.kvcase.json", found)
    tree = ("--kv-target=sglang-reference", f"--kv-sglang={checkout}")
    words = ("-p", "no:cacheprovider", "counted.kvcase.json", *tree)
    pytester.runpytest_subprocess(*words, timeout=120).assert_outcomes(passed=1)
    patched = pytester.runpytest_subprocess(*words, f"--kv-patch={patch}", timeout=120)
    patched.assert_outcomes(failed=1)
    patched.stdout.fnmatch_lines(["*slot_run_counter: expected *"])


@pytest.mark.parametrize(
    ("target", "reference", "given", "message"),
    [
        ("emulated", "torch", "--sglang", "a source tree is for the targets sglang and "
         "sglang-reference alone"),
        ("emulated", "sglang-reference", "--patch", "a patch is for the targets sglang and "
         "sglang-reference, not for emulated"),
    ],
)  # fmt: skip
def test_options_that_concern_no_target(
    target: str, reference: str, given: str, message: str, monkeypatch: Any, capsys: Any
) -> None:
    names = ("--target", target, "--reference", reference)
    assert run_cli(monkeypatch, "run", *names, given, "somewhere") == 2
    assert capsys.readouterr().err == message + "\n"


def message_of(name: str) -> str:
    with pytest.raises(TargetError) as error:
        load_target(name)
    return str(error.value)


def test_what_is_no_tree(tmp_path: Path) -> None:
    assert message_of(f"sglang-reference:{tmp_path}") == (
        f"{tmp_path} is no source tree of sglang: it has neither python/sglang nor sglang with a "
        f"folder kernels; {SUPPORT}"
    )
    (tmp_path / "kernels").mkdir()
    assert message_of(f"sglang-reference:{tmp_path}") == (
        f"the source tree {tmp_path} has no kv-canary kernels (kernels/ops/kv_canary); {SUPPORT}"
    )


def test_patches_that_cannot_be_applied(checkout: Path, tmp_path: Path) -> None:
    absent, plain, stale = (tmp_path / name for name in ("absent", "plain", "stale"))
    assert "absent cannot be read: " in message_of(f"sglang-reference:{checkout}::{absent}")
    plain.write_text("no diff\n")
    assert message_of(f"sglang-reference:{checkout}::{plain}") == (
        f"patch {plain} changes no file under python/sglang: it must be a unified diff, as git "
        "diff makes one in sglang's repository"
    )
    stale.write_text(diff_of(checkout, COUNTED, "pass").replace("-    slot", "-    slots"))
    assert message_of(f"sglang-reference:{checkout}::{stale}").startswith(
        f"patch {stale} does not apply: error: patch failed: python/sglang/{WRITE_REF}:"
    )


def test_a_tree_that_is_no_python(checkout: Path, tmp_path: Path) -> None:
    path = tmp_path / "broken.patch"
    path.write_text(diff_of(checkout, COUNTED, "slot_run_counter.add_("))
    message = message_of(f"sglang-reference:{checkout}::{path}")
    assert message.startswith(f"sglang's source tree {checkout}/python/sglang with {path} cannot")
    assert "write_ref.py, line " in message


def test_kernels_that_do_not_compile_are_no_target() -> None:
    def refuse(**_: Any) -> None:
        raise RuntimeError("ninja: canary_write.cuh(61): error: expected a ';'")

    with pytest.raises(TargetError) as error:
        try_launches(refuse, refuse, "cpu", "sglang 0.5.23")
    assert str(error.value) == (
        "sglang 0.5.23 cannot be built or launched: RuntimeError: "
        "ninja: canary_write.cuh(61): error: expected a ';'"
    )


def test_a_trial_launches_both_kernels_in_every_way_they_are_compiled() -> None:
    torch.set_num_threads(1)
    target = load_target("scalar")
    seen: list[Any] = []

    def verify(**arguments: Any) -> None:
        target.verify(**arguments)
        seen.append(arguments["check_verify_expected_token"])
        assert int(arguments["context"].violation_write_index) == 0

    try_launches(target.write, verify, "cpu", "ours")
    assert seen == [False, True]


def site(tmp_path: Path, version: str, *, kernels: bool = True, needs: str = "torch") -> Path:
    """A folder in which sglang is installed with all that it needs, and imports as a package."""
    assert WHEEL is not None
    root = tmp_path / "site"
    (root / "sglang").mkdir(parents=True, exist_ok=True)
    (root / "sglang" / "__init__.py").write_text("WHOLE = True\n")
    utils = root / "sglang" / "srt" / "utils"
    utils.mkdir(parents=True)
    (utils / "common.py").write_text("is_cuda = get_cuda_version = lambda: None\n")
    (utils.parent / "environ.py").symlink_to(WHEEL / "srt" / "environ.py")
    if kernels:
        (root / "sglang" / "kernels").symlink_to(WHEEL / "kernels")
    record = root / f"sglang-{version}.dist-info"
    record.mkdir()
    text = f"Metadata-Version: 2.1\nName: sglang\nVersion: {version}\nRequires-Dist: {needs}\n"
    (record / "METADATA").write_text(text + 'Requires-Dist: absent; extra == "dev"\n')
    return root


@pytest.mark.parametrize(
    ("installed", "said"),
    [
        ({"version": "0.4.9", "kernels": False},
         f"sglang 0.4.9 has no kv-canary kernels (kernels/ops/kv_canary); {SUPPORT}"),
        ({"version": "0.9.0"}, f"sglang 0.9.0 is installed; {SUPPORT}"),
    ],
)  # fmt: skip
def test_installations_that_are_not_supported(
    installed: dict[str, Any], said: str, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.syspath_prepend(site(tmp_path, **installed))
    with pytest.raises(TargetError) as error:
        installed_tree()
    assert str(error.value) == said


LOADS = """
import sys
sys.path.insert(0, sys.argv[1])
from kv_canary_fuzz.harness.targets.builtin import load_target
load_target("sglang-reference")
print(getattr(sys.modules["sglang"], "WHOLE", False))
"""


def test_a_whole_installation_is_imported_as_any_package(monkeypatch: Any, tmp_path: Path) -> None:
    assert not is_fully_installed(installed_tree())
    root = site(tmp_path, "0.5.23")
    command = [sys.executable, "-c", LOADS, str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("True\n", "")
    monkeypatch.syspath_prepend(root)
    assert is_fully_installed(installed_tree())
    assert WHEEL is not None
    assert not is_fully_installed(checkout_tree(WHEEL))


def test_no_installation(monkeypatch: Any) -> None:
    from kv_canary_fuzz.harness.targets import sglang_tree

    monkeypatch.setattr(sglang_tree, "installed_root", lambda: None)
    with pytest.raises(TargetError) as error:
        sglang_tree.installed_tree()
    assert str(error.value) == f"sglang is not installed; {SUPPORT}"
