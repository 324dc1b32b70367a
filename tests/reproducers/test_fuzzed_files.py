"""Damaged and greedy reproducers, through all that happens to one before its case is launched."""

from __future__ import annotations

import json
import random
import resource
import runpy
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from kv_canary_fuzz.harness.execution.arena import lay_out_batch
from kv_canary_fuzz.harness.findings.reproducer import (
    MAX_FILE_BYTES,
    Reproducer,
    ReproducerError,
    encode_reproducer,
    read_reproducer,
)
from kv_canary_fuzz.harness.targets.builtin import load_target
from kv_canary_fuzz.harness.targets.target import TargetError
from kv_canary_fuzz.reports.case_text import case_text
from kv_canary_fuzz.strategies.circumstances import circumstances
from kv_canary_fuzz.strategies.classify import classify
from kv_canary_fuzz.strategies.prng import case_at

MUTATIONS = runpy.run_path(str(Path(__file__).with_name("mutations.py")))
MUTATORS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    MUTATIONS["mutated"],
    MUTATIONS["restructured"],
    MUTATIONS["restructured"],
)
LIMIT = 256 * 2**20


@contextmanager
def at_most(more: int) -> Iterator[None]:
    """A MemoryError for whoever takes more than that, of addresses even, over what is in use."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + more, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def put_up_to_launch(path: Path, known: frozenset[str]) -> str:
    """What `replay`, `show` and pytest do with a file before its case runs; how that ended."""
    try:
        found = read_reproducer(path)
    except ReproducerError as error:
        line = str(error)
        assert line.isprintable(), line
        assert line.startswith(str(path))
        return "refused"
    if found.target not in known:
        with pytest.raises(TargetError) as unknown:
            load_target(found.target)
        assert len(str(unknown.value).splitlines()) == 1
    console = Console(file=StringIO(), width=120)
    console.print(f"{path}: {found.signature}", highlight=False, markup=False)
    console.print(case_text(found.case), highlight=False)
    console.file.getvalue().encode()  # type: ignore[attr-defined]
    circumstances(found.case, len(found.case.steps) - 1)
    lay_out_batch([found.case])
    return classify(found.case).value


@pytest.fixture(scope="module")
def originals() -> list[bytes]:
    """Reproducers of generated cases of each domain, the smaller ones."""
    cases = (
        case_at(11, index, domain)
        for domain in ("valid", "hardened", "refused")
        for index in range(60)
    )
    files = [
        encode_reproducer(Reproducer(signature="s", target="scalar", reference="torch", case=case))
        for case in cases
    ]
    return sorted(files, key=len)[:60]


def fuzz(count: int, originals: list[bytes], path: Path) -> Counter[str]:
    rng = random.Random(count)
    known = frozenset({"scalar", "planted:token_truncated"})
    ends: Counter[str] = Counter()
    with at_most(LIMIT):
        for _ in range(count):
            data = rng.choice(MUTATORS)(rng.choice(originals), rng)
            path.write_bytes(data)
            ends[put_up_to_launch(path, known)] += 1
    return ends


@pytest.mark.parametrize("count", [1500, pytest.param(20_000, marks=pytest.mark.nightly)])
def test_mutated_files(count: int, originals: list[bytes], file: Path, tmp_path: Path) -> None:
    """A case in bounds or one line, in 256 MiB; never another exception."""
    ends = fuzz(count, [*originals, file.read_bytes()], tmp_path / "mutated.kvcase.json")
    assert ends["refused"] > count / 2
    assert sum(ends.values()) - ends["refused"] > count / 20
    assert {"valid", "hardened", "refused"} <= ends.keys()


def launch_of(entries: int, requests: int, **offsets: Any) -> dict[str, Any]:
    return {
        "step": "write",
        "write_offsets": {"length": requests + 1, "fill": entries, **offsets},
        "write_seed_slot_indices": {"length": requests, "fill": -1},
        "write_num_valid_reqs": requests,
        "input_ids": {"length": entries},
        "positions": {"length": entries},
        "out_cache_loc": {"length": entries, "fill": -1},
    }


def checks_of(entries: int) -> dict[str, Any]:
    names = ("slot_indices", "expected_tokens", "expected_positions", "prev_slot_indices")
    columns = {f"verify_{name}": {"length": entries} for name in names}
    return {"step": "verify", "verify_num_valid": entries, **columns}


MOST = 2**20
HALF = MAX_FILE_BYTES // 2
GREEDY: dict[str, tuple[Any, str]] = {
    "as many slots as there is memory for": ({"num_slots": 2**23}, "valid"),
    "one slot more": (
        {"num_slots": 2**23 + 1},
        "$.case.case: takes 268435488 bytes of memory, the limit is 268435456",
    ),
    "as many requests as may be": ({"num_slots": 1, "steps": [launch_of(1, MOST)]}, "valid"),
    "one request more": (
        {"num_slots": 1, "steps": [launch_of(1, MOST + 1)]},
        "$.case.steps[0].write_seed_slot_indices.length: 1048577 is not in 0 .. 1048576",
    ),
    "as many entries as may be": (
        {"num_slots": 1, "steps": [launch_of(MOST, 1, values=[0])]},
        "valid",
    ),
    "one entry more": (
        {"num_slots": 1, "steps": [launch_of(MOST + 1, 1)]},
        "$.case.steps[0].out_cache_loc.length: 1048577 is not in 0 .. 1048576",
    ),
    "as many checks as may be": ({"num_slots": 1, "steps": [checks_of(MOST)]}, "valid"),
    "one check more": (
        {"num_slots": 1, "steps": [checks_of(MOST + 1)]},
        "$.case.steps[0].verify_slot_indices.length: 1048577 is not in 0 .. 1048576",
    ),
    "bytes kept for every step": (
        {"num_slots": 2**20, "steps": [{"step": "corrupt"}] * 64},
        "$.case.steps: takes 2181038080 bytes before and after its steps, the limit is 2147483648",
    ),
    "as many of them as may be": (
        {"num_slots": 2**20, "steps": [{"step": "corrupt"}] * 63},
        "valid",
    ),
    "a stride beyond memory": (
        {"num_slots": 1, "slot_stride_bytes": 2**30},
        "$.case.slot_stride_bytes: 1073741824 is not a multiple of 8 in 32 .. 268435456",
    ),
    "a file full of numbers": (
        {"num_slots": 1, "steps": [{**checks_of(1), "verify_slot_indices": [1] * (HALF // 3)}]},
        "$.case.steps[0].verify_slot_indices: Expected `object`, got `array`",
    ),
    "more numbers than a column may spell": (
        {
            "num_slots": 1,
            "steps": [{**checks_of(1), "verify_slot_indices": {"values": [1] * 65537}}],
        },
        "$.case.steps[0].verify_slot_indices.values: Expected `array` of length <= 65536",
    ),
    "a file full of steps": (
        {"num_slots": 1, "steps": [{"step": "corrupt"}] * (HALF // 22)},
        "$.case.steps: Expected `array` of length <= 64",
    ),
    "a file full of patches": (
        {"num_slots": 1, "canary_buf": {"patches": [{"offset": 0, "hex": "00"}] * 4097}},
        "$.case.canary_buf.patches: Expected `array` of length <= 4096",
    ),
}


@pytest.mark.parametrize("name", GREEDY)
def test_greedy_cases(name: str, tmp_path: Path) -> None:
    """Every limit that a case meets is in the error; just within them a case takes 256 MiB."""
    case, wanted = GREEDY[name]
    path = tmp_path / "greedy.kvcase.json"
    head = {"format": "kv-canary-fuzz case", "version": 1, "signature": "s"}
    path.write_text(json.dumps({**head, "target": "scalar", "reference": "torch", "case": case}))
    assert path.stat().st_size <= MAX_FILE_BYTES
    with at_most(LIMIT):
        if wanted == "valid":
            assert put_up_to_launch(path, frozenset({"scalar"})) == wanted
        else:
            with pytest.raises(ReproducerError) as refused:
                read_reproducer(path)
            assert str(refused.value) == f"{path}: {wanted}"


@pytest.mark.parametrize("filler", ["[],", "{},", '"ab",', "1e1,", '{"a":0},', "[0],"])
def test_a_file_full_of_something_else(filler: str, tmp_path: Path) -> None:
    path = tmp_path / "full.kvcase.json"
    items = (filler * (MAX_FILE_BYTES // len(filler) - 10))[:-1]
    for text in (f'{{"format": [{items}]}}', f'{{"case": [{items}]}}', f"[{items}]"):
        path.write_text(text)
        with at_most(LIMIT):
            assert put_up_to_launch(path, frozenset()) == "refused"
