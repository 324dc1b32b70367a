"""The two drivers of the grammar: bounds, determinism, independence, shrinking."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from kv_canary_fuzz.strategies.case import Case, WriteStep
from kv_canary_fuzz.strategies.classify import Domain, check_case, classify
from kv_canary_fuzz.strategies.content import Content, Patch, expand_words
from kv_canary_fuzz.strategies.draw import Draw, spread
from kv_canary_fuzz.strategies.hypothesis_driver import HypothesisDraw, cases
from kv_canary_fuzz.strategies.prng import PrngDraw, case_at, splitmix64, stream_seed
from kv_canary_fuzz.strategies.regions import read, word

_RELAXED = settings(
    max_examples=60,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def _check_draws(draw: Draw) -> None:
    assert draw.integer(5, 5) == 5
    assert -3 <= draw.integer(-3, 9) <= 9
    assert -(2**63) <= draw.integer(-(2**63), 2**63 - 1) < 2**63
    assert all(0 <= value <= 6 for value in draw.integers(30, 0, 6))
    assert all(-(2**63) <= value < 2**63 for value in draw.integers(3, -(2**63), 2**63 - 1))
    assert draw.choice("abc") in "abc"
    assert sorted(draw.distinct(5, 1, 5)) == [1, 2, 3, 4, 5]
    assert len(set(draw.distinct(30, 0, 99))) == 30
    assert 0 <= draw.seed64() < 2**64
    assert draw.chance(0) is False
    assert draw.chance(100) is True


@pytest.mark.parametrize("seed", range(20))
def test_prng_keeps_the_bounds(seed: int) -> None:
    _check_draws(PrngDraw(seed))


@_RELAXED
@given(st.data())
def test_hypothesis_keeps_the_bounds(data: st.DataObject) -> None:
    _check_draws(HypothesisDraw(data.draw))


def test_spread_repeats_by_weight() -> None:
    assert spread(("a", 2), ("b", 1)) == ("a", "a", "b")


def test_each_case_depends_on_seed_and_index_alone() -> None:
    forward = [case_at(9, index, "all") for index in range(40)]
    backward = [case_at(9, index, "all") for index in reversed(range(40))]
    assert forward == backward[::-1]
    assert len({repr(case) for case in forward}) == 40
    assert case_at(10, 0, "all") != forward[0]


def test_streams_differ() -> None:
    seeds = {stream_seed(seed, index) for seed in range(50) for index in range(50)}
    assert len(seeds) == 2500


def test_an_unknown_domain_is_an_error() -> None:
    with pytest.raises(ValueError, match="domain 'sound' is none of valid, hardened"):
        case_at(0, 0, "sound")


@pytest.mark.parametrize("domain", ["valid", "hardened", "refused"])
def test_prng_cases_are_of_their_domain(domain: str) -> None:
    for index in range(1500):
        case = case_at(77, index, domain)
        check_case(case)
        assert classify(case).value == domain, index


@pytest.mark.parametrize("domain", ["valid", "hardened", "refused"])
def test_hypothesis_cases_are_of_their_domain(domain: str) -> None:
    @_RELAXED
    @given(cases(domain))
    def check(case: Case) -> None:
        check_case(case)
        assert classify(case) is Domain(domain)

    check()


def test_hypothesis_examples_shrink_to_something_small() -> None:
    def has_two_entries(case: Case) -> bool:
        return any(
            isinstance(step, WriteStep) and len(step.out_cache_loc.values) > 1
            for step in case.steps
        )

    case = find(
        cases(),
        has_two_entries,
        settings=settings(_RELAXED, max_examples=300, phases=[Phase.generate, Phase.shrink]),
    )
    assert [type(step) for step in case.steps] == [WriteStep]
    assert len(case.steps[0].out_cache_loc.values) == 2


def test_expand_words_never_changes() -> None:
    seeds = np.array([0, 0, 1, 2**64 - 1], dtype=np.uint64)
    counters = np.array([0, 1, 0, 12345], dtype=np.uint64)
    assert [f"{value:016x}" for value in expand_words(seeds, counters).tolist()] == EXPANDED


EXPANDED = ["e220a8397b1dcdaf", "6e789e6aa1b965f4", "910a2dec89025cc1", "33aea1658ba2d28a"]


def test_plain_words_are_those_of_the_expansion() -> None:
    counters = np.arange(64, dtype=np.uint64)
    expanded = expand_words(np.full(64, 2**64 - 5, dtype=np.uint64), counters).tolist()
    assert [word(2**64 - 5, i) for i in range(64)] == expanded


def test_read_is_a_window_of_the_region() -> None:
    content = Content(seed=7, patches=(Patch(offset=3, hex="aabb"), Patch(offset=4, hex="cc")))
    words = expand_words(np.full(4, 7, dtype=np.uint64), np.arange(4, dtype=np.uint64))
    whole = bytearray(words.astype("<u8").tobytes())
    whole[3:5] = b"\xaa\xcc"
    assert read(content, 0, 32) == whole
    for offset in range(12):
        assert read(content, offset, 9) == whole[offset : offset + 9]
    assert read(Content(fill=9), 5, 3) == b"\x09\x09\x09"


def test_splitmix64_of_the_contract() -> None:
    assert splitmix64(0) == 0
    assert splitmix64(0x9E3779B97F4A7C15) == 0xE220A8397B1DCDAF
