"""Shrinking: from a failing case to the simplest one that still fails the same way."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from hashlib import blake2b

import msgspec
from msgspec import Struct

from kv_canary_fuzz.strategies.case import Case
from kv_canary_fuzz.strategies.classify import Domain, MalformedCase, check_case, classify
from kv_canary_fuzz.strategies.simplify.order import Complexity, complexity
from kv_canary_fuzz.strategies.simplify.passes import STAGES, canonical
from kv_canary_fuzz.strategies.simplify.problem import Pass

NARROWER: dict[Domain, frozenset[Domain]] = {
    Domain.VALID: frozenset({Domain.VALID}),
    Domain.HARDENED: frozenset({Domain.HARDENED, Domain.VALID}),
    Domain.REFUSED: frozenset({Domain.REFUSED, Domain.VALID}),
    Domain.UNDEFINED: frozenset({Domain.VALID}),
}
"""The domains that a case of a domain may be shrunk into."""

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Case)


class ShrinkResult(Struct, frozen=True):
    """The simplest failing case found, and what it took.

    ``tries`` counts calls of the predicate, ``steps`` the successes among them. ``fixed_point`` is
    False where the budget ended the search before no pass could do anything more.
    """

    case: Case
    tries: int
    steps: int
    fixed_point: bool
    seconds: float


class OutOfBudget(Exception):
    """The shrinker's own signal that its seconds are used up."""


class Gate:
    """A failing case and the one way of replacing it: a `strategies.problem.Problem`.

    A candidate passes when it was not judged before, is well-formed and in a domain no wider than
    the first case's, is simpler than the present case, and still fails; in that order, so that
    the predicate, which costs most, is asked last. A valid case is simpler than any other.
    """

    def __init__(
        self,
        case: Case,
        still_fails: Callable[[Case], bool],
        on_better: Callable[[Case], None],
        expired: Callable[[], bool],
    ) -> None:
        self._case = case
        self._size = _size(case)
        self._domains = NARROWER[classify(case)]
        self._still_fails = still_fails
        self._on_better = on_better
        self._expired = expired
        self._known = {_digest(case)}
        self.tries = 0
        self.steps = 0

    @property
    def case(self) -> Case:
        return self._case

    def attempt(self, candidate: Case) -> bool:
        """See the class. Raises OutOfBudget instead of asking the predicate too late."""
        candidate = canonical(candidate)
        digest = _digest(candidate)
        if digest in self._known:
            return False
        self._known.add(digest)
        if not self._legal(candidate):
            return False
        size = _size(candidate)
        if size >= self._size:
            return False
        if self._expired():
            raise OutOfBudget
        self.tries += 1
        if not self._still_fails(candidate):
            return False
        self._case, self._size = candidate, size
        self.steps += 1
        self._on_better(candidate)
        return True

    def _legal(self, candidate: Case) -> bool:
        try:
            _DECODER.decode(_ENCODER.encode(candidate))
            check_case(candidate)
        except (msgspec.ValidationError, MalformedCase):
            return False
        return classify(candidate) in self._domains


def _size(case: Case) -> tuple[bool, Complexity]:
    return classify(case) is not Domain.VALID, complexity(case)


def _digest(case: Case) -> bytes:
    return blake2b(_ENCODER.encode(case), digest_size=16).digest()


def shrink(
    case: Case,
    still_fails: Callable[[Case], bool],
    *,
    budget_seconds: float,
    on_better: Callable[[Case], None] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
    stages: Sequence[Sequence[Pass]] = STAGES,
) -> ShrinkResult:
    """Simplify ``case``, which fails, until no pass makes it simpler or the seconds are used up.

    ``still_fails`` says whether a case shows the same failure; it must be a function of the case.
    ``on_better`` is called with every improvement at once, so that it can be kept. What either of
    them raises is passed on. A predicate that has begun is waited for.
    """
    started = clock()
    gate = Gate(case, still_fails, on_better, lambda: clock() - started >= budget_seconds)
    fixed_point = True
    try:
        gate.attempt(canonical(case))
        _run(gate, stages)
    except OutOfBudget:
        fixed_point = False
    return ShrinkResult(gate.case, gate.tries, gate.steps, fixed_point, clock() - started)


def _run(gate: Gate, stages: Sequence[Sequence[Pass]]) -> None:
    """Stage by stage; back to the first after any success, until the last does nothing."""
    stage = 0
    while stage < len(stages):
        before = gate.steps
        for run in stages[stage]:
            run(gate)
        stage = stage + 1 if gate.steps == before else 0
