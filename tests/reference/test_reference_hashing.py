"""Section 3's functions at fixed points, in both spellings."""

from __future__ import annotations

import pytest
import torch

from kv_canary_fuzz.reference import consts, hashing, scalar_hashing

POINTS = [
    (0, 0),
    (1, 0x5692161D100B05E5),
    (2**63, 0x25C26EA579CEA98A),
    (2**64 - 1, 0xB4D055FCF2CBBD7B),
    (consts.CANARY_CHAIN_ANCHOR, 0xDE7FAE23A9A1B716),
]


def signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


@pytest.mark.parametrize(("value", "hashed"), POINTS)
def test_splitmix64(value, hashed):
    assert scalar_hashing.splitmix64(value) == hashed
    assert hashing.splitmix64(torch.tensor([signed(value)])).tolist() == [signed(hashed)]


def test_mix3():
    arguments = (3, 2**63 - 1, -(2**63))
    hashed = 0xDCB997762FDFC047

    assert scalar_hashing.mix3(*arguments) == hashed
    tensors = (torch.tensor([argument]) for argument in arguments)
    assert hashing.mix3(*tensors).tolist() == [signed(hashed)]


def test_chain_head():
    assert signed(scalar_hashing.splitmix64(consts.CANARY_CHAIN_ANCHOR)) == hashing.CHAIN_HEAD


def test_fold_takes_little_endian_words_in_order():
    words = bytes.fromhex("0100000000000000 0000000000000080")
    first = scalar_hashing.splitmix64(1)

    assert scalar_hashing.fold(words) == scalar_hashing.splitmix64(first ^ 2**63)


def test_fold_over_no_sources_is_zero_and_over_one_is_not_its_fold():
    fold = scalar_hashing.fold(bytes([1] * 16))

    assert scalar_hashing.fold_sources([]) == 0
    assert scalar_hashing.fold_sources([bytes([1] * 16)]) == scalar_hashing.splitmix64(fold)
