"""Builds that count: which lines and branches launches reach, and what can be missing."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kv_canary_fuzz.kernels import abi, gcov
from kv_canary_fuzz.kernels.counted import read_folder
from kv_canary_fuzz.kernels.errors import CountersUnavailable
from kv_canary_fuzz.kernels.gcov import find_gcov

WRITE_TWO = """
import sys
from pathlib import Path
from kv_canary_fuzz.kernels import counted
from kv_canary_fuzz.reference.building import build_context, build_write_launch

slots = [int(word) for word in sys.argv[2:]]
context = build_context(num_slots=4)
launch = build_write_launch(context, write_offsets=[0, len(slots)], write_seed_slot_indices=[-1],
                            input_ids=slots, positions=slots, out_cache_loc=slots)
counted.build(Path(sys.argv[1])).launch_canary_write_kernel(**launch.arguments())
print(context.slot_run_counter.item())
"""


def write(folder: Path, *slots: int) -> str:
    words = [sys.executable, "-c", WRITE_TWO, str(folder), *map(str, slots)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True)
    assert done.stderr == ""
    return done.stdout


def source_line(file: str, text: str) -> int:
    """The number of the one line of a source file that holds ``text``."""
    path = Path(gcov.__file__).parent / "csrc" / file
    [number] = [n for n, line in enumerate(path.read_text().splitlines(), 1) if text in line]
    return number


SKIPPED = "if (!slot_exists(launch.canary, entry.slot)) continue;"


def test_processes_count_together_and_kernels_apart(tmp_path: Path) -> None:
    place = ("chain.cuh", source_line("chain.cuh", SKIPPED))

    def reached(kernel: str) -> tuple[int, tuple[int, ...]]:
        [found] = [line for line in read_folder(tmp_path)[kernel] if line[:2] == place]
        return found.reached, found.branches

    assert write(tmp_path, 1) == "1\n"
    assert reached("kv_canary_write_plain") == (1, (0, 1))
    assert write(tmp_path, -1) == "0\n"
    assert reached("kv_canary_write_plain") == (2, (1, 1))
    assert reached("kv_canary_write_folded") == (0, (0, 0))
    counts = read_folder(tmp_path)
    assert tuple(counts) == abi.KERNELS
    assert not any(line.reached for line in counts["kv_canary_verify_heads"])
    assert {line.file for line in counts["kv_canary_verify_plain"]} == {
        *("kv_canary.cu", "verify.cuh", "ring.cuh", "slot.cuh", "hash.cuh", "fold.cuh")
    }


def test_nothing_counted_is_nothing_read(tmp_path: Path) -> None:
    assert read_folder(tmp_path) == {}


def test_a_missing_gcov_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: None if "gcov" in name else which(name))
    with pytest.raises(CountersUnavailable) as raised:
        find_gcov()
    assert "\n" not in str(raised.value)
    assert "there is none: install it, for example with 'apt install gcc-" in str(raised.value)


def test_a_gcov_of_another_version_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"gcov": "gcov (GCC) 9.4.0\n", "g++": "g++ (GCC) 12.2.0 Free Software Foundation\n"}
    monkeypatch.setattr(gcov, "find_compiler", lambda: ("/usr/bin/g++",))
    monkeypatch.setattr(gcov, "compiler_version", lambda words: told[Path(words[0]).name])
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/gcov" if name == "gcov" else None)
    with pytest.raises(
        CountersUnavailable, match=r"coverage needs gcov 12, which belongs to g\+\+ 12"
    ):
        find_gcov()


def test_another_compiler_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gcov, "compiler_version", lambda _: "clang version 17.0.6\nTarget: x\n")
    with pytest.raises(
        CountersUnavailable, match=r"the compiler is clang version 17\.0\.6: set CXX"
    ):
        find_gcov()
