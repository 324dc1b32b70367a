"""What a module must offer to be a target, and what is generated for it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kv_canary_fuzz.harness.campaign.campaign import MANY, settled
from kv_canary_fuzz.harness.campaign.settings import WIDE_BATCH, DomainName, Settings
from kv_canary_fuzz.harness.targets.builtin import load_target
from kv_canary_fuzz.harness.targets.target import TargetError, target_of
from kv_canary_fuzz.strategies.classify import Domain


def offer(**more: Any) -> SimpleNamespace:
    launchers = {
        "launch_canary_write_kernel": lambda **_: None,
        "launch_canary_verify_kernel": lambda **_: None,
    }
    return SimpleNamespace(**{**launchers, **more})


def test_a_module_with_two_launchers_is_a_target() -> None:
    target = target_of("mine", offer())
    assert (target.name, target.device, target.set_schedule) == ("mine", "cpu", None)
    assert target.domains == {Domain.VALID, Domain.HARDENED, Domain.REFUSED}


def test_a_module_says_its_device_and_domains() -> None:
    target = target_of("mine", offer(DEVICE="cuda:1", DOMAINS=("valid",)))
    assert target.device == "cuda:1"
    assert target.domains == {Domain.VALID}
    assert target.streams is not None
    assert not target.streams.captures


def test_a_module_on_a_gpu_says_whether_its_launches_can_be_captured() -> None:
    assert target_of("mine", offer()).streams is None
    streams = target_of("mine", offer(DEVICE="cuda", CAPTURES=True)).streams
    assert streams is not None
    assert streams.captures


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            {"launch_canary_write_kernel": None},
            "target 'mine' lacks launch_canary_write_kernel",
        ),
        (
            {"DOMAINS": ("valid", "odd")},
            "target 'mine' claims ['odd'], none of ['hardened', 'refused', 'valid']",
        ),
    ],
)
def test_what_a_target_cannot_be(more: dict[str, Any], message: str) -> None:
    with pytest.raises(TargetError) as error:
        target_of("mine", offer(**more))
    assert str(error.value) == message


def test_an_unknown_planted_bug_is_named_with_those_that_exist() -> None:
    with pytest.raises(TargetError, match=r"no planted bug 'none'; there are: hash_constant, "):
        load_target("planted:none")


@pytest.mark.parametrize(
    ("target", "cases", "batch"),
    [
        ("emulated", None, WIDE_BATCH),
        ("emulated", MANY, WIDE_BATCH),
        ("emulated", MANY - 1, Settings(target="").batch),
        ("scalar", None, Settings(target="").batch),
    ],
)
def test_cases_of_native_code_are_run_many_together(
    target: str, cases: int | None, batch: int
) -> None:
    assert settled(Settings(target=target, cases=cases)).batch == batch


def test_a_campaign_is_settled_by_what_the_target_claims() -> None:
    assert settled(Settings(target="scalar")).domain is DomainName.ALL
    asked = settled(Settings(target="scalar", domain=DomainName.HARDENED))
    assert asked.domain is DomainName.HARDENED
