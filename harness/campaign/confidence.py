"""What a campaign without findings says about how often cases fail: the rule of three."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct

from kv_canary_fuzz.strategies.case import Case
from kv_canary_fuzz.strategies.features.features import features


class Bounds(Struct, frozen=True):
    """Shares of failing cases that 95 of 100 such campaigns would not have missed: 3 / N.

    ``cases`` is that of all cases, ``features`` those of the cases that have a feature.
    """

    cases: float
    features: dict[str, float]

    @property
    def weakest(self) -> str | None:
        """The feature that was tried least."""
        return max(self.features, key=self.features.__getitem__, default=None)


def failure_bounds(
    cases: int, counts: Mapping[str, int], chosen: Sequence[Case] = ()
) -> Bounds | None:
    """The bounds after ``cases`` cases without a failure; None where none was independent.

    ``counts`` says how many of them have each feature. Those ``chosen`` for a corpus are among
    them, and no evidence of how often a case fails.
    """
    drawn = Counter(counts)
    drawn.subtract(name for case in chosen for name in features(case) if name in counts)
    independent = cases - len(chosen)
    if independent <= 0:
        return None
    return Bounds(_bound(independent), {name: _bound(n) for name, n in drawn.items() if n > 0})


def _bound(cases: int) -> float:
    return min(1.0, 3 / cases)
