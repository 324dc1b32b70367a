"""What a campaign without findings says about how often cases fail: the rule of three."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


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


def failure_bounds(cases: int, features: Mapping[str, int]) -> Bounds | None:
    """The bounds after ``cases`` independent cases without a failure; None after none.

    ``features`` says how many of them have each.
    """
    if cases <= 0:
        return None
    return Bounds(_bound(cases), {name: _bound(n) for name, n in features.items() if n > 0})


def _bound(cases: int) -> float:
    return min(1.0, 3 / cases)
