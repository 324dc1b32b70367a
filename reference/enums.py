"""The enumerations of the kv-canary contract, section 1."""

from enum import IntEnum, IntFlag


class FailReason(IntFlag):
    """Bits of a violation row's last field."""

    VERIFY_CHAIN_HASH_MISMATCH = 1
    VERIFY_POSITION_MISMATCH = 2
    VERIFY_REAL_KV_HASH_MISMATCH = 4
    WRITE_TOKEN_MISMATCH = 8
    WRITE_POSITION_MISMATCH = 16
    VERIFY_TOKEN_MISMATCH = 32


class RealKvHashMode(IntEnum):
    """How many of a token's KV bytes are folded: none, the leading 16, or read_bytes."""

    NONE = 0
    PARTIAL = 1
    ALL = 2


class CanaryLaunchTag(IntEnum):
    """Where in a model's forward pass a launch stands; a row's kernel_kind."""

    HEAD_K_FULL = 0
    HEAD_V_FULL = 1
    TAIL_K_FULL = 2
    TAIL_V_FULL = 3
    SWEEP_K_FULL = 4
    SWEEP_V_FULL = 5
    HEAD_K_SWA = 6
    HEAD_V_SWA = 7
    TAIL_K_SWA = 8
    TAIL_V_SWA = 9
    SWEEP_K_SWA = 10
    SWEEP_V_SWA = 11
