"""The features of the grammar by name: what a campaign of each domain is expected to meet."""

from __future__ import annotations

from kv_canary_fuzz.reference.contract import Contract
from kv_canary_fuzz.reference.enums import CanaryLaunchTag, RealKvHashMode

from ..case import LAUNCHINGS
from ..faults import KINDS
from ..grammar.grammar import SHAPES
from ..grammar.sources import REAL_GEOMETRIES


def _family(name: str, *values: object) -> tuple[str, ...]:
    return tuple(f"{name}:{value}" for value in values)


NUMBER_CLASSES = ("small", "int32_edge", "wide", "int64_edge")
COUNT_CLASSES = ("0", "1", "few", "31-33", "63-65", "127-129", "255-257")

STATE = (
    *_family("sources", *range(5)),
    *_family("mode", *(mode.name for mode in RealKvHashMode)),
    *_family("page_size", "1", "power_of_2", "odd", "64"),
    *_family("token_bytes", "16-128", "144-400", *sorted({size for size, _ in REAL_GEOMETRIES})),
    *_family("source", "row_padding", "tight_rows", "short_read", "spare_rows", "filled"),
    *_family("stride", 32, 40, 48, 64, 72, 128),
    *_family("slots", "2-7", "8-24", "25-72", "73-511", "512+"),
    *_family("canary_buf", "seeded", "zero", "filled"),
    *_family("ring", "none", "1-4", "5-31", "32+"),
    *_family("index", "zero", "inside", "end", "past", "far"),
    *_family("counters", "zero", "small", "past_int32", "negative"),
    *_family("steps", *sorted(set(SHAPES)), "twice"),
    *_family("launching", *LAUNCHINGS),
    *_family("base", 64, 32, 16, 8, 4),
    *_family("kernel_kind", *(tag.name for tag in CanaryLaunchTag)),
)

WRITE = (
    *_family("write_requests", "0", "1", "2-4", "5-9", "10-64", "65+", "wide"),
    *_family("write_entries", *COUNT_CLASSES),
    *_family("write_longest", "17+", "31-33", "63-65", "127-129"),
    *_family("write_token", *NUMBER_CLASSES),
    *_family("write_position", *NUMBER_CLASSES),
    *_family(
        "write_seed", "-1", "other_negative", "zero", "own_slot", "stamped_before", "stale_slot"
    ),
    *_family(
        "write_plan", "empty_request", "leading_entries", "token_tail", "request_tail", "full"
    ),
    *_family("write_slot", "skipped", "skipped_other", "zero", "duplicate", "alias"),
    *_family("input_assert", "off", "clean", "token", "position", "both", "minus_one"),
    *_family("chain_assert", "off", "1", "other"),
    "chain_assert:negative",
)

VERIFY = (
    *_family("verify_entries", *COUNT_CLASSES, "511-513", "wide"),
    *_family("verify_enable", "0", "1", "other", "negative"),
    *_family("verify_check_token", "on", "off"),
    *_family("verify_slot", "zero", "repeated", "unstamped"),
    *_family("verify_predecessor", "zero", "-1", "other_negative", "slot"),
    *_family("verify_expected_token", *NUMBER_CLASSES, "minus_one_checked"),
    *_family("verify_plan", "tail", "full"),
)

CORRUPT = (
    *_family("edits", "1", "2", "3"),
    *_family("flip", "token", "position", "prev_hash", "real_kv_hash", "slot_padding"),
    *_family("flip_kv", "first", "last", "inside", "just_beyond", "beyond", "row_padding"),
    "swap",
)

VALID = STATE + WRITE + VERIFY + CORRUPT

HARDENED = (
    *_family("hardened_requests", "negative", "beyond", "no_capacity"),
    *_family("hardened_offsets", "negative", "beyond", "descending"),
    *_family("hardened_write", "slot_beyond", "seed_beyond", "last_position"),
    *_family("hardened_entries", "negative", "beyond", "no_capacity"),
    *_family("hardened_verify", "slot_negative", "slot_beyond", "predecessor_beyond"),
    *_family("hardened_state", "index_negative", "index_wraps", "slot_counter", "kernel_counter"),
)

REFUSED = (
    *_family("fault", *KINDS),
    *_family("faults", 1, 2),
    *_family("refused_step", "write", "verify"),
    *_family("refused_at", "first", "last", "between"),
)

STRIDED = _family("rows", "apart", "whole_rows_between")
"""What a contract that allows strided rows adds to every domain."""

ALL_FEATURES = {
    "valid": VALID,
    "hardened": VALID + HARDENED,
    "refused": VALID + REFUSED,
    "all": VALID + HARDENED + REFUSED,
}
"""Every feature that a campaign of this domain should meet, under any contract."""


def expected_features(domain: str, contract: Contract) -> tuple[str, ...]:
    """Every feature that a campaign of this domain should meet under a contract."""
    names = ALL_FEATURES[domain]
    return names + STRIDED if contract.strided_rows else names
