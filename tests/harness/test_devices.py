"""Workers over the GPUs of a machine, on one that seems to have four."""

from __future__ import annotations

from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kv_canary_fuzz.harness.campaign import campaign, crew
from kv_canary_fuzz.harness.campaign.settings import Settings, Shard
from kv_canary_fuzz.harness.pytest_plugin import plugin, pytest_campaign
from kv_canary_fuzz.harness.pytest_plugin.pytest_campaign import CampaignPlan, ShardTest
from kv_canary_fuzz.harness.targets.devices import (
    is_crowded,
    most_workers,
    use_gpu_of,
    xdist_worker,
)
from kv_canary_fuzz.harness.targets.target import Target


def target_on(device: str, name: str = "mine") -> Target:
    return Target(name=name, device=device, write=lambda **_: None, verify=lambda **_: None)


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The GPUs that were made the current one, of four."""
    made_current: list[int] = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setattr(torch.cuda, "set_device", made_current.append)
    return made_current


def test_workers_take_the_gpus_in_turn(chosen: list[int]) -> None:
    for worker in range(6):
        use_gpu_of(worker, target_on("cuda"))
    assert chosen == [0, 1, 2, 3, 0, 1]


def test_a_target_that_names_its_gpu_or_has_none_is_left_alone(
    chosen: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    use_gpu_of(3, target_on("cuda:1"))
    use_gpu_of(3, target_on("cpu"))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    use_gpu_of(3, target_on("cuda"))
    assert chosen == []


@pytest.mark.usefixtures("chosen")
@pytest.mark.parametrize(
    ("device", "name", "gibibytes", "most"),
    [
        ("cuda", "cuda", 16, 40),
        ("cuda:2", "mine", 16, 10),
        ("cuda", "large:cuda", 139, 8),
        ("cuda", "large:cuda", 79, 4),
        ("cuda:2", "large:cuda", 16, 1),
        ("cpu", "emulated", 0, None),
    ],
)
def test_how_many_workers_the_gpus_bear(
    device: str, name: str, gibibytes: int, most: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    has = SimpleNamespace(total_memory=gibibytes * 2**30)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: has)
    assert most_workers(target_on(device, name)) == most


@pytest.mark.parametrize(
    ("device", "free", "own", "crowded"),
    [
        ("cuda", 10, 80, False),
        ("cuda:1", 90, 0, False),
        ("cuda", 10, 30, True),
        ("cpu", 0, 0, False),
    ],
)
def test_a_gpu_is_crowded_where_others_hold_most_of_its_memory(
    device: str, free: int, own: int, crowded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda one: {device: (free, 100)}[one])
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda one: {device: own}[one])
    assert is_crowded(target_on(device)) == crowded


@pytest.mark.usefixtures("chosen")
def test_usual_workers_are_one_for_each_core_up_to_what_gpus_bear(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(campaign, "usable_cores", lambda: 64)
    for device, workers in (("cuda", 40), ("cuda:1", 10), ("cpu", 64)):
        monkeypatch.setattr(campaign, "load_target", lambda _, device=device: target_on(device))
        assert campaign.usual_workers("mine") == workers


@pytest.mark.usefixtures("chosen")
@pytest.mark.parametrize(("target", "workers"), [("mine", 10), ("", 64), ("no.such.module", 64)])
def test_automatic_workers_of_xdist_are_bounded(
    target: str, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = plugin.load_target
    monkeypatch.setattr(
        plugin, "load_target", lambda name: target_on("cuda:0") if name == "mine" else load(name)
    )
    config: Any = SimpleNamespace(option=SimpleNamespace(kv_target=target))
    hook = plugin.pytest_xdist_auto_num_workers(config)
    next(hook)
    with pytest.raises(StopIteration) as ended:
        hook.send(64)
    assert ended.value.value == workers


def test_xdist_workers_by_name() -> None:
    assert [xdist_worker(name) for name in ("gw0", "gw12", "master", "")] == [0, 12, 0, 0]


def test_workers_of_a_campaign_choose_their_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[int] = []
    monkeypatch.setattr(crew, "use_gpu_of", lambda worker, _: used.append(worker))
    monkeypatch.setattr(crew.signal, "signal", lambda *_: None)
    settings = Settings(target="emulated", cases=0)
    for index in (1, 5):  # the second stands in for the first after four batches
        ours, theirs = Pipe()
        with ours, theirs:
            crew._work(settings, Shard(index, 4), (str(tmp_path), "a run"), theirs, None)
            assert ours.recv().cases == 0
    assert used == [1, 1]


def test_shards_under_xdist_choose_their_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[int] = []
    monkeypatch.setattr(pytest_campaign, "use_gpu_of", lambda worker, _: used.append(worker))
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw5")
    plan = CampaignPlan(Settings(target="emulated", cases=0), str(tmp_path))
    ShardTest(plan, 0).run()
    plan.leave()
    assert used == [5]
