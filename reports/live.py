"""The line that shows how a campaign is doing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

from kv_canary_fuzz.harness.campaign.settings import Settings
from kv_canary_fuzz.harness.campaign.tally import Tally
from kv_canary_fuzz.strategies.features.features import expected_features

PLAIN_SECONDS = 30.0
"""Without a terminal, at most one line in this many seconds."""

MOST_SIGNATURES = 3
Say = Callable[[str], None]


class Show(Protocol):
    """Takes what all workers have seen so far, and whether all of them are at work."""

    def __call__(self, tally: Tally, complete: bool, /) -> None: ...


class Live:
    """Time and progress of one campaign since its workers began."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._began: float | None = None
        self._ended: float | None = None
        self._known: set[str] = set()

    def read(self, tally: Tally, complete: bool) -> tuple[float, str]:
        """The fraction that is done, and the line."""
        if self._began is None and (complete or tally.cases):
            self._began = monotonic()
        if self._began is None:
            return 0.0, "starting workers"
        if self._ended is None and self._is_last(tally.cases):
            self._ended = monotonic()
        elapsed = max((self._ended or monotonic()) - self._began, 1e-3)
        done, left = self._progress(elapsed, tally.cases)
        parts = (
            f"{tally.cases:,} cases",
            f"{tally.cases / elapsed:,.0f} cases/s",
            _findings_text(tally),
            self._features_text(tally),
            f"{left} left",
        )
        return done, ", ".join(parts)

    def news(self, tally: Tally) -> list[str]:
        """A line for each signature that was not there before."""
        fresh = [signature for signature in tally.findings if signature not in self._known]
        self._known.update(fresh)
        return [f"found {s}, case {tally.findings[s].first_index}" for s in fresh]

    def _is_last(self, cases: int) -> bool:
        settings = self._settings
        return settings.cases is not None and cases >= settings.cases + settings.replayed

    def _progress(self, elapsed: float, cases: int) -> tuple[float, str]:
        settings = self._settings
        if settings.cases is not None:
            total = settings.cases + settings.replayed
            return cases / max(total, 1), f"{max(0, total - cases):,} cases"
        if settings.seconds is not None:
            left = max(0.0, settings.seconds - elapsed)
            return elapsed / max(settings.seconds, 1e-9), f"{left:.0f} s"
        return 0.0, "unbounded"

    def _features_text(self, tally: Tally) -> str:
        names = expected_features(self._settings.domain, self._settings.revision)
        missing = sum(name not in tally.features for name in names)
        return f"{missing} features not yet met" if missing else f"all {len(names)} features met"


def _findings_text(tally: Tally) -> str:
    count = len(tally.findings)
    if not count:
        return "no findings"
    most = sorted(tally.findings.items(), key=lambda item: -item[1].count)[:MOST_SIGNATURES]
    named = "; ".join(f"{signature} {seen.count:,}" for signature, seen in most)
    rest = "; ..." if count > MOST_SIGNATURES else ""
    return f"{count} finding{'' if count == 1 else 's'} ({named}{rest})"


@contextmanager
def live_line(console: Console, live: Live, say: Say | None = None) -> Iterator[Show]:
    """Show progress on ``console``; ``say``, if given, gets a line for each new finding."""
    if console.is_terminal:
        with _bar(console) as progress:
            task = progress.add_task("", total=1.0, text="starting workers")

            def show_bar(tally: Tally, complete: bool) -> None:
                done, text = live.read(tally, complete)
                progress.update(task, completed=done, text=text)
                _tell_news(live, tally, say)

            yield show_bar
        return
    plain = PlainLines(live, lambda line: console.print(line, highlight=False, markup=False))

    def show_plain(tally: Tally, complete: bool) -> None:
        plain(tally, complete)
        _tell_news(live, tally, say)

    yield show_plain


class PlainLines:
    """Lines for where there is no terminal: not too many, and none twice in a row."""

    def __init__(self, live: Live, say: Say, seconds: float = PLAIN_SECONDS) -> None:
        self._live = live
        self._say = say
        self._seconds = seconds
        self._printed = monotonic()
        self._text = ""

    def __call__(self, tally: Tally, complete: bool, /) -> None:
        _, text = self._live.read(tally, complete)
        if monotonic() - self._printed >= self._seconds and text != self._text:
            self._printed = monotonic()
            self._text = text
            self._say(text)


def _tell_news(live: Live, tally: Tally, say: Say | None) -> None:
    if say is not None:
        for line in live.news(tally):
            say(line)


def _bar(console: Console) -> Progress:
    columns = SpinnerColumn(), BarColumn(bar_width=20), TextColumn("{task.fields[text]}")
    return Progress(*columns, console=console, transient=True)
