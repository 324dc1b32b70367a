"""Disposable processes come and go: nobody waits for another's, nor is blamed for its start."""

from __future__ import annotations

import select
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kv_canary_fuzz.harness.execution.arena import allocate, fill, lay_out_batch
from kv_canary_fuzz.harness.execution.fuzzer import Fuzzer
from kv_canary_fuzz.harness.isolation import isolation as isolation_module
from kv_canary_fuzz.harness.isolation.deadline import Deadline
from kv_canary_fuzz.harness.isolation.disposable import Disposable
from kv_canary_fuzz.harness.isolation.isolation import Isolation
from kv_canary_fuzz.harness.isolation.nursery import Nursery
from kv_canary_fuzz.harness.isolation.protocol import Ended, RunCases
from kv_canary_fuzz.harness.isolation.shared import SharedMemory
from kv_canary_fuzz.harness.isolation.zygote import (
    Brief,
    Order,
    Reap,
    Reply,
    decode_reply,
    encode,
)
from kv_canary_fuzz.harness.targets.target import Target, TargetError
from kv_canary_fuzz.strategies.case import Case

HERE = Path(__file__).parent
BuildCase = Callable[[str], Case]


class Nurseries:
    """Makes nurseries whose children load a target of this folder themselves, and ends them."""

    def __init__(self) -> None:
        self._begun: list[Nursery] = []
        self._plain: Nursery | None = None

    def plain(self) -> Nursery:
        """The same for all tests, of a target that takes no time."""
        self._plain = self._plain or self.begin()
        return self._plain

    def begin(self, target: str = "slow_target", **environment: str) -> Nursery:
        brief = Brief(target, str(HERE), late=True, heap=None)
        self._begun.append(Nursery(brief, environment))
        return self._begun[-1]

    def join(self, nursery: Nursery) -> Nursery:
        """As another worker has it, which uses the same zygote."""
        other = self.begin(nursery.target)
        other.join(nursery.introduce())
        return other

    def close(self) -> None:
        for nursery in self._begun:
            nursery.close()


@pytest.fixture(scope="module")
def nurseries() -> Iterator[Nurseries]:
    sys.path.insert(0, str(HERE))
    made = Nurseries()
    yield made
    made.close()
    sys.path.remove(str(HERE))


def test_building_again_is_no_hang(
    faulty: Target, write_of: BuildCase, nurseries: Nurseries
) -> None:
    nursery = nurseries.begin(KV_TEST_BUILD_BUSY="0.3")
    isolation = Isolation(nursery, Deadline(0.1, builds=True))
    fuzzer = Fuzzer(replace(faulty, isolation=isolation))
    for _ in range(12):  # until what was learned of the first process weighs nothing
        assert fuzzer.failing([write_of("")] * 4) == []
    isolation.let_go()
    assert fuzzer.failing([write_of("")] * 4) == []
    assert fuzzer.deaths == {}


def test_a_process_that_takes_long_to_end_holds_up_nobody(
    write_of: BuildCase, nurseries: Nurseries
) -> None:
    nursery = nurseries.plain()
    batch = lay_out_batch([write_of("")])
    arena = SharedMemory(batch.size)
    fill(batch, arena.bytes)
    staying = Disposable(nursery, arena, Deadline(5.0), None)
    assert nursery._side is not None
    nursery._side.send(encode(Reap(staying.process)))  # it does not end: nobody hung up on it
    other = Disposable(nurseries.join(nursery), arena, Deadline(5.0), None)
    other.ask(RunCases(batch.cases, batch.layouts))
    assert isinstance(other.answer(1), Ended)
    assert select.select([nursery._side], (), (), 0) == ([], [], [])
    staying._connection.close()
    assert decode_reply(nursery._side.recv(65536)) == Reply(0)
    staying._close()
    other.close()


def test_the_child_of_an_earlier_zygote_is_taken_for_killed(
    write_of: BuildCase, nurseries: Nurseries
) -> None:
    arena = SharedMemory(lay_out_batch([write_of("")]).size)
    nursery = nurseries.plain()
    orphan = Disposable(nursery, arena, Deadline(5.0), None)
    nursery.close()
    nursery.begin()
    assert nursery.reap(orphan.process) == -9
    orphan._close()
    Disposable(nursery, arena, Deadline(5.0), None).close()


def test_who_is_gone_before_he_is_adopted_harms_nobody(
    write_of: BuildCase, nurseries: Nurseries
) -> None:
    batch = lay_out_batch([write_of("")])
    arena = SharedMemory(batch.size)
    fill(batch, arena.bytes)
    nursery = nurseries.plain()
    staying = Disposable(nursery, arena, Deadline(5.0), None)
    nursery.introduce().close()
    Disposable(nursery, arena, Deadline(5.0), None).close()
    staying.ask(RunCases(batch.cases, batch.layouts))
    assert isinstance(staying.answer(1), Ended)
    staying.close()


def test_a_zygote_may_be_killed_again_and_again(
    write_of: BuildCase, nurseries: Nurseries, monkeypatch: pytest.MonkeyPatch
) -> None:
    arena = SharedMemory(lay_out_batch([write_of("")]).size)
    nursery = nurseries.begin()
    ask, killed = nursery._ask, []

    def harassed(order: Order, descriptors: Sequence[int] = ()) -> Reply:
        nursery.begin()
        if len(killed) < 6:
            assert nursery._process is not None
            nursery._process.kill()
            killed.append(nursery._process.pid)
        return ask(order, descriptors)

    monkeypatch.setattr(nursery, "_ask", harassed)
    Disposable(nursery, arena, Deadline(5.0), None).close()
    assert len(set(killed)) == 6


def test_a_successor_is_loaded_before_its_turn(
    faulty: Target, write_of: BuildCase, nurseries: Nurseries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolation_module, "CASES_PER_PROCESS", 64)
    monkeypatch.setattr(isolation_module, "SPREAD", 1)
    isolation = Isolation(nurseries.plain(), Deadline(2.0, builds=True))
    fuzzer = Fuzzer(replace(faulty, isolation=isolation))
    order: list[tuple[int | None, int | None]] = []
    for _ in range(36):
        assert fuzzer.failing([write_of("")] * 4) == []
        pair = isolation._process, isolation._successor
        order.append(tuple(one and one.process for one in pair))  # type: ignore[arg-type]
    isolation.let_go()
    first, second, third = dict.fromkeys(process for process, _ in order)
    assert order[:14] == [(first, None)] * 14
    assert order[14:16] == [(first, second)] * 2
    assert order[16:30] == [(second, None)] * 14
    assert order[30:] == [(second, third)] * 2 + [(third, None)] * 4


def test_a_target_that_no_process_can_load_is_one_line_and_no_finding(
    faulty: Target, write_of: BuildCase, nurseries: Nurseries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolation_module, "PAUSE_SECONDS", 0.0)
    isolation = Isolation(nurseries.begin("nowhere.to.be.found"), Deadline(2.0, builds=True))
    fuzzer = Fuzzer(replace(faulty, isolation=isolation))
    for cases in (1, 4):
        with pytest.raises(TargetError, match=r"^target 'nowhere.*' cannot be loaded: TargetError"):
            fuzzer.failing([write_of("")] * cases)


@pytest.mark.nightly
def test_ten_workers_replace_their_processes_all_the_time(
    write_of: BuildCase, nurseries: Nurseries, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of ten waits a second for its process to load, again and again, beside the others."""
    monkeypatch.setattr(isolation_module, "CASES_PER_PROCESS", 16)
    nursery = nurseries.begin(KV_TEST_LOAD_IDLE="1.0", KV_TEST_LOAD_BUSY="0.1")
    sides = [Isolation(nurseries.join(nursery), Deadline(0.5, builds=True)) for _ in range(10)]
    batch = lay_out_batch([write_of("")] * 4)
    processes: set[int] = set()
    for _ in range(12):
        expected = allocate(batch.size)
        fill(batch, expected)
        for side in sides:
            fill(batch, side.arena(batch.size))
            side.start(batch)
            assert side._process is not None
            processes.add(side._process.process)
        outcomes = {bytes(side.finish()[1]) for side in sides}
        assert len(outcomes) == 1
        assert outcomes != {bytes(expected)}
    assert len(processes) >= 30
    for side in sides:
        side.let_go()
