"""The line that shows how a campaign is doing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

PLAIN_SECONDS = 30.0
"""Without a terminal, at most one line in this many seconds."""


class Show(Protocol):
    """Takes the cases so far, the signatures found, and whether all workers are at work."""

    def __call__(self, cases: int, findings: int, complete: bool) -> None: ...


@contextmanager
def live_line(console: Console, *, seconds: float | None, cases: int | None) -> Iterator[Show]:
    """Show progress on ``console`` for a campaign bounded by ``seconds`` or ``cases``."""
    clock = _Clock(seconds, cases)
    if console.is_terminal:
        with _bar(console) as progress:
            task = progress.add_task("", total=1.0, text="starting workers")

            def show_bar(cases: int, findings: int, complete: bool) -> None:
                done, text = clock.read(cases, findings, complete)
                progress.update(task, completed=done, text=text)

            yield show_bar
        return
    printed = monotonic()

    def show_plain(cases: int, findings: int, complete: bool) -> None:
        nonlocal printed
        _, text = clock.read(cases, findings, complete)
        if monotonic() - printed >= PLAIN_SECONDS:
            printed = monotonic()
            console.print(text, highlight=False)

    yield show_plain


def _bar(console: Console) -> Progress:
    columns = SpinnerColumn(), BarColumn(bar_width=20), TextColumn("{task.fields[text]}")
    return Progress(*columns, console=console, transient=True)


class _Clock:
    """Time and progress since the workers began."""

    def __init__(self, seconds: float | None, cases: int | None) -> None:
        self._seconds = seconds
        self._cases = cases
        self._began: float | None = None

    def read(self, cases: int, findings: int, complete: bool) -> tuple[float, str]:
        """The fraction that is done, and the line."""
        if self._began is None and (complete or cases):
            self._began = monotonic()
        if self._began is None:
            return 0.0, "starting workers"
        elapsed = max(monotonic() - self._began, 1e-3)
        done, left = self._progress(elapsed, cases)
        text = (
            f"{cases:,} cases, {cases / elapsed:,.0f} cases/s, "
            f"{findings} finding{'' if findings == 1 else 's'}, {left} left"
        )
        return done, text

    def _progress(self, elapsed: float, cases: int) -> tuple[float, str]:
        if self._cases is not None:
            return cases / self._cases, f"{max(0, self._cases - cases):,} cases"
        if self._seconds is not None:
            return elapsed / self._seconds, f"{max(0.0, self._seconds - elapsed):.0f} s"
        return 0.0, "unbounded"
