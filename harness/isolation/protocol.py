"""What a harness process and the disposable one that runs a target say to each other.

Messages are MessagePack of the types here, never pickles: a target may have written anywhere in
the process that answers.
"""

from __future__ import annotations

from msgspec import Struct, msgpack

from kv_canary_fuzz.strategies.case import Case

from ..execution.layout import Layout
from .bare import BareCase

MAX_ANSWER_BYTES = 64 * 2**20


class RunCases(Struct, frozen=True, tag=True):
    """Run these cases, which lie one behind the other in the shared memory.

    Where launches end later than they return, each is waited for with ``stepwise``, so that a
    death is where the process says that it is; all of them together without.
    """

    cases: tuple[Case, ...]
    layouts: tuple[Layout, ...]
    stepwise: bool = False


class RunSteps(Struct, frozen=True, tag=True):
    """Run this case, which lies at the start of the shared memory, step by step.

    Behind it, the bytes after each step are left, one snapshot behind the other.
    """

    case: Case


Outcomes = tuple[tuple[int, int, str, str], ...]
"""Exceptions as (case, step, type, message)."""


class Ended(Struct, frozen=True, tag=True):
    """What was asked for is done."""

    raised: Outcomes


class Doomed(Struct, frozen=True, tag=True):
    """A launch left the process unfit for more, so it ends: the kind of death, and a line."""

    kind: str
    line: str


class RunBareCases(Struct, frozen=True, tag="RunCases"):
    """RunCases as it is read."""

    cases: tuple[BareCase, ...]
    layouts: tuple[Layout, ...]
    stepwise: bool = False


class RunBareSteps(Struct, frozen=True, tag="RunSteps"):
    """RunSteps as it is read."""

    case: BareCase


Request = RunCases | RunSteps
BareRequest = RunBareCases | RunBareSteps
Answer = Ended | Doomed

encode = msgpack.Encoder().encode
decode_request = msgpack.Decoder(BareRequest).decode
decode_answer = msgpack.Decoder(Answer).decode
