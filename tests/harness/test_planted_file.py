"""The data file of planted bugs: what every entry must be."""

from __future__ import annotations

from collections import Counter

import pytest

from kv_canary_fuzz.kernels.errors import PatchError
from kv_canary_fuzz.kernels.planted import build_planted, planted_bugs
from kv_canary_fuzz.kernels.source import Patch, apply_patches, read_sources

KINDS = (
    *("hashing", "addressing", "chain", "checks", "rows", "ring", "counters", "gates"),
    *("clamping", "memory", "concurrency", "grid"),
)


def test_sixty_bugs_or_more_each_with_a_name_of_its_own():
    names = [bug.name for bug in planted_bugs()]

    assert len(names) >= 60
    assert len(set(names)) == len(names)


def test_every_kind_has_several_and_there_is_no_other():
    counts = Counter(bug.kind for bug in planted_bugs())

    assert tuple(counts) == KINDS
    assert min(counts.values()) >= 5


def test_every_patch_applies_and_changes_something():
    sources = read_sources()

    for bug in planted_bugs():
        assert apply_patches(sources, bug.patches) != sources, bug.name


def test_no_two_are_the_same_change():
    changes = Counter(tuple(bug.patches) for bug in planted_bugs())

    assert [patches for patches, count in changes.items() if count > 1] == []


def test_descriptions_are_one_sentence():
    for bug in planted_bugs():
        assert bug.description.endswith("."), bug.name
        assert "\n" not in bug.description, bug.name


def test_a_patch_that_no_longer_applies_fails_the_build():
    with pytest.raises(PatchError, match=r"hash\.cuh: .* must occur once, found 0"):
        apply_patches(read_sources(), [Patch("hash.cuh", "no such text", "")])


def test_an_unknown_name_is_told_the_names():
    with pytest.raises(KeyError, match="no planted bug 'typo'; there are hash_constant, "):
        build_planted("typo")
