"""Features of cases: each is reached, none is unknown, and a few exact sets."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace

from kv_canary_fuzz.reference import DOCUMENTED, RELEASED
from kv_canary_fuzz.strategies.case import Case, CorruptStep, Flip, Source, SwapSlots
from kv_canary_fuzz.strategies.features.features import (
    ALL_FEATURES,
    STRIDED,
    expected_features,
    features,
)
from kv_canary_fuzz.strategies.prng import case_at


@pytest.mark.parametrize(
    ("domain", "count"), [("valid", 8000), ("hardened", 8000), ("refused", 8000)]
)
def test_every_feature_of_a_domain_is_reached(domain: str, count: int) -> None:
    met: Counter[str] = Counter()
    for index in range(count):
        met.update(features(case_at(2026, index, domain)))
    assert set(ALL_FEATURES[domain]) - set(met) == set()
    assert set(met) - set(ALL_FEATURES[domain]) == set()


def test_the_later_revision_adds_features() -> None:
    met: Counter[str] = Counter()
    for index in range(400):
        met.update(features(case_at(2026, index, "valid", RELEASED)))
    names = expected_features("valid", RELEASED)
    assert set(names) - set(ALL_FEATURES["valid"]) == set(STRIDED)
    assert set(STRIDED) - set(met) == set()
    assert expected_features("valid", DOCUMENTED) == ALL_FEATURES["valid"]


def test_the_mixture_has_the_features_of_all() -> None:
    together = {
        name for domain in ("valid", "hardened", "refused") for name in ALL_FEATURES[domain]
    }
    assert set(ALL_FEATURES["all"]) == together
    assert len(ALL_FEATURES["all"]) == len(together)


def test_features_of_a_small_case() -> None:
    source = Source(rows=5, row_bytes=48, page_size=1, num_bytes_per_token=48, read_bytes=32)
    region = "real_kv_sources[0].tensor"
    case = Case(num_slots=5, real_kv_sources=(source,), real_kv_hash_mode=2)
    assert features(case) == {
        *("sources:1", "mode:ALL", "stride:32", "slots:2-7", "canary_buf:zero", "ring:none"),
        *("index:zero", "counters:zero", "page_size:1", "token_bytes:16-128"),
        *("source:tight_rows", "source:short_read", "source:filled"),
        *("launching:eager", "base:64"),
    }
    put_otherwise = features(replace(case, launching="graph", shift=24)) - features(case)
    assert put_otherwise == {"launching:graph", "base:8"}
    corrupt = CorruptStep(
        edits=(Flip(region=region, offset=48 + 31, mask=1), SwapSlots(first=1, second=2))
    )
    more = features(replace(case, steps=(corrupt,))) - features(case)
    assert more == {"edits:2", "flip_kv:last", "swap"}
    twice = features(replace(case, steps=(corrupt, corrupt))) - features(case)
    assert twice == {"edits:2", "flip_kv:last", "swap", "steps:twice"}
    beyond = CorruptStep(edits=(Flip(region=region, offset=48 + 32, mask=1),))
    more = features(replace(case, steps=(beyond,))) - features(case)
    assert more == {"edits:1", "flip_kv:just_beyond"}


def test_hardened_features_stay_out_of_valid_cases() -> None:
    for index in range(1000):
        found = features(case_at(4, index))
        assert not [name for name in found if name.startswith(("hardened", "fault", "refused"))]
