"""Reading reproducers: what a damaged or hostile file says."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from kv_canary_fuzz.harness.findings.reproducer import (
    Reproducer,
    ReproducerError,
    read_reproducer,
    write_reproducer,
)
from kv_canary_fuzz.harness.judging.company import Company
from kv_canary_fuzz.strategies.case import Case

Change = Callable[[str], str]


def replaced(old: str, new: str) -> Change:
    def change(text: str) -> str:
        assert text.count(old) >= 1, old
        return text.replace(old, new, 1)

    return change


def fault_of(path: Path) -> str:
    with pytest.raises(ReproducerError) as caught:
        read_reproducer(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    assert text.isprintable()
    return text.removeprefix(f"{path}: ")


def test_what_was_written_is_read(file: Path, reproducer: Reproducer) -> None:
    assert read_reproducer(file) == reproducer


FAULTS: dict[str, tuple[Change, str]] = {
    "empty": (lambda _: "", "Input data was truncated"),
    "truncated": (lambda text: text[:400], "Input data was truncated"),
    "not an object": (lambda _: "[1]", "Expected `object`, got `array`"),
    "deep nesting": (lambda _: '{"a": ' * 150_000, "is nested too deeply"),
    "deep nesting in the case": (
        replaced('"num_slots": 41', '"num_slots": ' + "[" * 100_000),
        "is nested too deeply",
    ),
    "another format": (
        replaced("kv-canary-fuzz case", "something else"),
        "$.format: is 'something else', not 'kv-canary-fuzz case'",
    ),
    "no format": (lambda _: "{}", "$.format: is None, not 'kv-canary-fuzz case'"),
    "a later version": (
        replaced('"version": 1', '"version": 2, "colour": 7'),
        "$.version: is 2, this program reads version 1",
    ),
    "version of another type": (
        replaced('"version": 1', '"version": true'),
        "$.version: is True, this program reads version 1",
    ),
    "unknown field": (
        replaced('"num_slots": 41', '"num_slots": 41, "colour": 7'),
        "$.case: Object contains unknown field `colour`",
    ),
    "unknown step": (
        replaced('"step": "corrupt"', '"step": "explode"'),
        "$.case.steps[1].step: Invalid value 'explode'",
    ),
    "missing field": (
        replaced('"signature": "write: canary_buf.token",', ""),
        "Object missing required field `signature`",
    ),
    "field twice": (
        replaced('"num_slots": 41', '"num_slots": 1, "num_slots": 41'),
        "has the field 'num_slots' twice",
    ),
    "number for a string": (
        replaced('"target": "planted:token_truncated"', '"target": 7'),
        "$.target: Expected `str`, got `int`",
    ),
    "huge size": (
        replaced('"num_slots": 41', f'"num_slots": {2**62}'),
        f"$.case.num_slots: Expected `int` <= {2**40}",
    ),
    "size that no memory holds": (
        replaced('"num_slots": 41', f'"num_slots": {2**39}'),
        f"$.case.num_slots: {2**39} is not in 1 .. 268435456",
    ),
    "memory over the limit": (
        replaced('"ring_capacity": 2', '"ring_capacity": 200000000'),
        "$.case.case: takes",
    ),
    "number with a million digits": (
        replaced('"num_slots": 41', '"num_slots": ' + "9" * 900_000),
        "$.case.num_slots: ",
    ),
    "token outside int64": (
        replaced("[9223372036854775807", "[9223372036854775808"),
        "$.case.steps[0].input_ids.values[0]: Expected `int` <= 9223372036854775807",
    ),
    "seed outside 64 bits": (
        replaced("18446744073709551615", "18446744073709551616"),
        "$.case.canary_buf.seed: 18446744073709551616 is not in",
    ),
    "campaign seed outside 64 bits": (
        replaced('"seed": 5,', f'"seed": {2**64},'),
        f"$.seed: {2**64} is not in -1 .. {2**64 - 1}",
    ),
    "patch outside its region": (
        replaced('"offset": 32', '"offset": 1311'),
        "$.case.canary_buf.patches[0]: 2 bytes at 1311 leave the region of 1312",
    ),
    "patch of half a byte": (
        replaced('"01ff"', '"01f"'),
        "$.case.canary_buf.patches[0].hex: Expected `str` matching regex",
    ),
    "column longer than its length": (
        replaced('"length": 40', '"length": 39'),
        "$.case.steps[2].verify_",
    ),
    "flip outside its region": (
        replaced('"offset": 8,', '"offset": 656,'),
        "$.case.steps[1].edits[0].offset: 656 is not in 0 .. 655",
    ),
    "more sources than four": (
        replaced('"real_kv_sources": [', '"real_kv_sources": [1, 2, 3, 4, 5,'),
        "$.case.real_kv_sources",
    ),
    "text behind the end": (lambda text: text + "x", "JSON is malformed: trailing characters"),
    "not a number": (replaced('"num_slots": 41', '"num_slots": NaN'), "JSON is malformed"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_one_line_with_its_place(name: str, file: Path) -> None:
    change, wanted = FAULTS[name]
    file.write_text(change(file.read_text(encoding="utf-8")), encoding="utf-8")
    assert fault_of(file).startswith(wanted)


def test_missing_file(tmp_path: Path) -> None:
    assert fault_of(tmp_path / "gone.kvcase.json") == "cannot be read: No such file or directory"


def test_folder_instead_of_file(tmp_path: Path) -> None:
    assert fault_of(tmp_path) == "cannot be read: Is a directory"


def test_not_utf8(file: Path) -> None:
    file.write_bytes(b'{"format": "\xff"}')
    assert fault_of(file) == "byte 12: is not UTF-8"


def test_oversized_file(file: Path) -> None:
    file.write_bytes(file.read_bytes() + b" " * 2**20)
    assert fault_of(file) == "is longer than the limit of 1048576 bytes"


def test_a_name_with_a_newline_stays_on_one_line(tmp_path: Path) -> None:
    path = tmp_path / "two\nlines.kvcase.json"
    with pytest.raises(ReproducerError) as caught:
        read_reproducer(path)
    assert str(caught.value).endswith(
        "two\\nlines.kvcase.json: cannot be read: No such file or directory"
    )


def test_hostile_sizes_take_no_memory(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace('"num_slots": 41', f'"num_slots": {2**40}'), encoding="utf-8")
    tracemalloc.start()
    fault_of(file)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**24


def in_company(file: Path, before: str) -> Path:
    """The file with cases before its own, given as the text of a list."""
    text = file.read_text(encoding="utf-8")
    case = '"case": {\n    "num_slots": 41'
    assert text.count(case) == 1
    company = f'"company": {{"before": {before}}},\n  '
    file.write_text(text.replace(case, company + case), encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("before", "wanted"),
    [
        (
            "[" + ", ".join(['{"num_slots": 1}'] * 1025) + "]",
            "$.company.before: Expected `array` of length <= 1024",
        ),
        ('[{"num_slots": 1}, {"num_slots": 0}]', "$.company.before[1].num_slots: 0 is not in 1 .."),
        (
            '[{"num_slots": 1, "colour": 7}]',
            "$.company.before[0]: Object contains unknown field `colour`",
        ),
        (
            "[" + ", ".join(['{"num_slots": 4194304}'] * 3) + "]",
            "$.company.before[1]: with the case, takes more than 268435456 bytes of memory",
        ),
        ('[], "colour": 7', "$.company: Object contains unknown field `colour`"),
    ],
)
def test_company_is_bounded(file: Path, before: str, wanted: str) -> None:
    assert fault_of(in_company(file, before)).startswith(wanted)


def test_before_and_after_are_bounded_together(tmp_path: Path, reproducer: Reproducer) -> None:
    some = (Case(num_slots=1),) * 600
    path = tmp_path / "found.kvcase.json"
    write_reproducer(path, replace(reproducer, company=Company(before=some, after=some)))
    assert fault_of(path) == "$.company: 1200 cases, the limit is 1024"


def test_company_is_read_as_written(tmp_path: Path, reproducer: Reproducer) -> None:
    company = Company(before=(reproducer.case, Case(num_slots=3)), after=(Case(num_slots=2),))
    path = tmp_path / "found.kvcase.json"
    write_reproducer(path, replace(reproducer, company=company))
    assert read_reproducer(path).company == company
