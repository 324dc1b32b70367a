"""The cases of a campaign by index, wherever they come from."""

from __future__ import annotations

import msgspec

from kv_canary_fuzz.strategies.case import Case
from kv_canary_fuzz.strategies.prng import case_at

from .run_folder import RunFolder
from .settings import Settings


class CaseSource:
    """Cases of the grammar from index 0 on; below 0 those of the corpus, as the run began."""

    def __init__(self, settings: Settings, folder: RunFolder) -> None:
        self._settings = settings
        self._replayed: list[Case] = []
        if settings.replayed:
            data = folder.replayed.read_bytes()
            self._replayed = msgspec.json.decode(data, type=list[Case])

    def at(self, index: int) -> Case:
        """Case ``index``, the same in every process of the run."""
        settings = self._settings
        if index < 0:
            return self._replayed[index + len(self._replayed)]
        return case_at(settings.seed, index, settings.domain, settings.revision)
