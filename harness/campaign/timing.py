"""A run's workers over time."""

from __future__ import annotations

from datetime import UTC, datetime

from .summary import Timing, WorkerPace
from .tally import Pace, Tally


def timing_of(tally: Tally, now: datetime) -> Timing:
    """The workers' rates on one axis of time; ``now`` stands in where no worker ran."""
    paces = sorted((pace for pace in tally.paces if pace.cases), key=lambda pace: pace.began)
    first = min((pace.began for pace in paces), default=now.timestamp())
    last = max((pace.ended for pace in paces), default=now.timestamp())
    started = datetime.fromtimestamp(first, UTC)
    return Timing(
        started=started.isoformat(timespec="seconds"),
        seconds=round(max(0.0, last - first), 3),
        core_seconds=tally.seconds,
        workers=tuple(_worker(pace, first) for pace in paces),
    )


def _worker(pace: Pace, first: float) -> WorkerPace:
    """Rates by bucket; the last bucket lasts until the worker's last batch ended."""
    rates = [count / pace.bucket for count in pace.cases]
    last = pace.ended - pace.began - pace.bucket * (len(rates) - 1)
    if len(rates) > 1 and last < pace.bucket / 2:
        rates.pop()
    else:
        rates[-1] = pace.cases[-1] / min(pace.bucket, max(last, 0.05))
    return WorkerPace(
        began=round(pace.began - first, 3),
        bucket=pace.bucket,
        cases=round(sum(pace.cases)),
        rates=tuple(round(rate, 1) for rate in rates),
    )
