"""Progress of a campaign inside pytest, shown by the one process that has the terminal."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread

from kv_canary_fuzz.reports.live import PLAIN_SECONDS, Live, PlainLines

from .pytest_campaign import PROGRESS_SECONDS, CampaignPlan, total_progress


class ProgressWatch:
    """Reads what the shards leave in the run's folder, and says the totals now and then.

    It works alike with and without xdist, since it needs nothing but the folder.
    """

    def __init__(
        self,
        plan: CampaignPlan,
        say: Callable[[str], None],
        verbose: bool,
        seconds: float = PLAIN_SECONDS,
    ) -> None:
        self._plan = plan
        self._say = say
        self._verbose = verbose
        self._seconds = seconds
        self._shown: tuple[Live, PlainLines] | None = None
        self._ended = Event()
        self._thread = Thread(target=self._watch, name="kv-canary progress", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Say what is new once more, and end."""
        self._ended.set()
        self._thread.join()
        self.look()

    def look(self) -> None:
        """Read the folder once; nothing is said before a shard has left something there."""
        progress = total_progress(self._plan.folder) if self._plan.is_in else None
        if progress is None:
            return
        if self._shown is None:
            live = Live(progress.settings)
            self._shown = live, PlainLines(live, self._say, self._seconds)
        live, lines = self._shown
        lines(progress.tally, True)
        if self._verbose:
            for line in live.news(progress.tally):
                self._say(line)

    def _watch(self) -> None:
        while not self._ended.wait(PROGRESS_SECONDS):
            self.look()
