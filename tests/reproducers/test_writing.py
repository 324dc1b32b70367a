"""Writing reproducers: readable, small, and whole at any instant."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from kv_canary_fuzz.harness.atomic_file import write_atomically
from kv_canary_fuzz.harness.findings.reproducer import (
    Reproducer,
    encode_reproducer,
    read_reproducer,
    write_reproducer,
)
from kv_canary_fuzz.harness.json_text import json_text


def test_the_text_says_what_the_value_says(reproducer: Reproducer) -> None:
    text = encode_reproducer(reproducer).decode()
    fields = msgspec.json.decode(msgspec.json.encode(reproducer))
    assert fields.pop("company") == {}  # left out where there is none
    assert json.loads(text) == fields
    assert msgspec.json.decode(text, type=Reproducer) == reproducer


def test_short_arrays_stay_on_a_line(reproducer: Reproducer) -> None:
    lines = encode_reproducer(reproducer).decode().splitlines()
    assert (
        '        "write_offsets": {"values": [0, 2], "length": 4, "fill": 2, "tail": [-5]},'
        in lines
    )
    assert max(map(len, lines)) <= 101
    assert len(lines) <= 75


def test_layout_of_long_lists() -> None:
    assert json_text({"short": [1, 2], "long": list(range(1000, 1020)), "names": {}}) == (
        "{\n"
        '  "short": [1, 2],\n'
        '  "long": [\n'
        f"    {', '.join(str(number) for number in range(1000, 1016))},\n"
        "    1016, 1017, 1018, 1019\n"
        "  ],\n"
        '  "names": {}\n'
        "}\n"
    )


def test_equal_reproducers_are_equal_bytes(reproducer: Reproducer) -> None:
    again = msgspec.json.decode(msgspec.json.encode(reproducer), type=Reproducer)
    assert encode_reproducer(again) == encode_reproducer(reproducer)


def test_a_file_is_replaced(file: Path, reproducer: Reproducer) -> None:
    write_reproducer(file, msgspec.structs.replace(reproducer, note="again"))
    assert '"note": "again"' in file.read_text(encoding="utf-8")
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_a_failed_write_leaves_the_old_file_alone(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = file.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(file, b"new")
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_atomically(tmp_path / "gone" / "file", b"new")


WRITER = """
import sys
from pathlib import Path
from msgspec.structs import replace
from kv_canary_fuzz.harness.findings.reproducer import read_reproducer, write_reproducer

shared, note = Path(sys.argv[1]), sys.argv[2]
found = replace(read_reproducer(shared), note=note * 1000)
while not shared.with_name("stop").exists():
    write_reproducer(shared, found)
"""


def test_h12_a_file_is_never_read_half_written(file: Path, reproducer: Reproducer) -> None:
    write_reproducer(file, reproducer)
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(file), note]) for note in ("a", "b")
    ]
    notes: set[str] = set()
    try:
        until = time.monotonic() + 60
        while notes != {"", "a", "b"} and time.monotonic() < until:
            notes.add(read_reproducer(file).note[:1])
    finally:
        (file.parent / "stop").touch()
        assert [writer.wait(timeout=60) for writer in writers] == [0, 0]
    assert notes == {"", "a", "b"}
