"""What a campaign, or a part of one, has seen so far."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field


class Sighting(Struct):
    """How often a signature was met, and the lowest case index that showed it."""

    count: int
    first_index: int


class Tally(Struct):
    """Counts that add up: cases, seconds of one core's work, features, findings by signature."""

    cases: int = 0
    seconds: float = 0.0
    features: dict[str, int] = field(default_factory=dict)
    findings: dict[str, Sighting] = field(default_factory=dict)

    def sight(self, signature: str, index: int, count: int = 1) -> None:
        known = self.findings.get(signature)
        if known is None:
            self.findings[signature] = Sighting(count, index)
        else:
            known.count += count
            known.first_index = min(known.first_index, index)

    def count_features(self, counts: Mapping[str, int]) -> None:
        for name, count in counts.items():
            self.features[name] = self.features.get(name, 0) + count

    def add(self, other: Tally) -> None:
        self.cases += other.cases
        self.seconds += other.seconds
        self.count_features(other.features)
        for signature, sighting in other.findings.items():
            self.sight(signature, sighting.first_index, sighting.count)
