"""Deadlines on a machine whose cores are all taken: the slow go on, and the hanging are named."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from kv_canary_fuzz.harness.execution.fuzzer import Fuzzer
from kv_canary_fuzz.harness.isolation.loading import load_isolated
from kv_canary_fuzz.harness.judging.verdict import judge
from kv_canary_fuzz.harness.targets.target import Target
from kv_canary_fuzz.strategies.case import Case, Column

HERE = Path(__file__).parent
HEAVY, ENDLESS = 4001, 4002
SPINNERS_PER_CORE = 4
FLOOR = 0.4
"""Twice what a heavy launch takes of the processor; by the clock, several times less."""

BuildCase = Callable[[str], Case]


@pytest.fixture
def busy_machine() -> Iterator[None]:
    """Several processes for each core that do nothing but use it."""
    spinners = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(SPINNERS_PER_CORE * len(os.sched_getaffinity(0)))
    ]
    yield
    for spinner in spinners:
        spinner.kill()
        spinner.wait()


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Target]:
    monkeypatch.syspath_prepend(str(HERE))
    target = load_isolated("slow_target", FLOOR)
    yield target
    assert target.isolation is not None
    target.isolation.let_go()


@pytest.mark.nightly
@pytest.mark.usefixtures("busy_machine")
def test_the_slow_and_healthy_are_let_go_on_and_the_hanging_are_named(
    slow: Target, write_of: BuildCase
) -> None:
    plain = write_of("")
    (step,) = plain.steps
    heavy, endless = (
        replace(plain, steps=(replace(step, input_ids=Column(values=(token, 5), length=2)),))
        for token in (HEAVY, ENDLESS)
    )
    fuzzer = Fuzzer(slow)
    for _ in range(4):  # what launches usually take is learned: a thousandth of a heavy one
        assert fuzzer.failing([plain] * 64) == []
    for place in (0, 7, 15):
        cases = [plain] * 16
        cases[place] = heavy
        assert fuzzer.failing(cases) == []
    assert judge(heavy, slow).agrees
    assert fuzzer.failing([heavy, plain, endless, heavy, plain]) == [2]
    assert fuzzer.deaths[2].signature == "crash: hang in write"
    assert judge(endless, slow).signature == "crash: hang in write"
    assert judge(heavy, slow).agrees


@pytest.mark.nightly
@pytest.mark.usefixtures("busy_machine")
def test_no_launch_of_the_kernels_is_taken_for_hanging() -> None:
    target = load_isolated("emulated", 0.1)
    fuzzer = Fuzzer(target)
    for first in range(0, 512, 128):
        assert fuzzer.failing(fuzzer.generate(9, range(first, first + 128), "all")) == []
    fuzzer.close()
