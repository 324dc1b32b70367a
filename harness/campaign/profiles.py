"""From what a person asked for to a campaign's settings, the same for both front ends."""

from __future__ import annotations

import random
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

import msgspec
from msgspec.structs import replace

from kv_canary_fuzz.strategies.case import Case

from ..atomic_file import check_writable, write_atomically
from ..findings.ledger import read_ledger
from ..isolation.loading import FLOOR_SECONDS
from ..targets.builtin import countable_target
from ..targets.sglang_targets import sglang_names
from .corpus import read_corpus
from .run_folder import CASE_SUFFIX, RunFolder
from .settings import DomainName, Settings

CORPUS = Path("reports/corpus")
LEDGER = Path("reports/ledger.toml")

PULL_REQUEST_SEED = 1
PULL_REQUEST_CASES = 80_000
NIGHTLY_SECONDS = 1800.0
SECONDS = 60.0


class Profile(StrEnum):
    """How long a campaign is and what it keeps, where nothing else is said.

    ``plain`` takes a minute. ``pull-request`` has a fixed seed and a fixed number of cases, so it
    is the same every time. ``nightly`` has a fresh seed, takes half an hour over all domains, and
    uses the corpus and the ledger of the current folder.
    """

    PLAIN = "plain"
    PULL_REQUEST = "pull-request"
    NIGHTLY = "nightly"


def settings_for(
    profile: Profile,
    *,
    target: str | None = None,
    reference: str = "torch",
    domain: DomainName = DomainName.CLAIMED,
    seed: int | None = None,
    cases: int | None = None,
    seconds: float | None = None,
    shrink_seconds: float = 60.0,
    corpus: Path | None = None,
    ledger: Path | None = None,
    deadline: float = FLOOR_SECONDS,
    sglang: Path | None = None,
    patch: Path | None = None,
    third: str | None = None,
    coverage: bool = False,
) -> Settings:
    """The settings of a profile, with whatever was given in place of its own.

    Targets of sglang's are taken from the source tree ``sglang``; ``patch`` is for the target.
    Raises SettingsError, and TargetError where these are given and concern no target, or where the
    target cannot give the ``coverage`` asked for.
    """
    bounded = cases is not None or seconds is not None
    if profile is Profile.PULL_REQUEST and not bounded:
        cases = PULL_REQUEST_CASES
        seed = PULL_REQUEST_SEED if seed is None else seed
    elif not bounded:
        seconds = NIGHTLY_SECONDS if profile is Profile.NIGHTLY else SECONDS
    if profile is Profile.NIGHTLY:
        corpus, ledger = corpus or CORPUS, ledger or LEDGER
    target, reference = sglang_names(target or "auto", reference, sglang, patch)
    settings = Settings(
        target=countable_target(target) if coverage else target,
        reference=reference,
        domain=domain,
        seed=fresh_seed() if seed is None else seed,
        cases=cases,
        seconds=seconds,
        shrink_seconds=shrink_seconds,
        corpus=None if corpus is None else str(corpus),
        ledger=None if ledger is None else str(ledger),
        deadline=deadline,
        third=third,
        coverage=coverage,
    )
    settings.check()
    return settings


def kept_cases(settings: Settings) -> list[Case]:
    """The corpus that the settings name, and none where they name none; the ledger is read too.

    Raises CorpusError, LedgerError and ReproducerError.
    """
    if settings.ledger is not None:
        read_ledger(Path(settings.ledger))
    return [] if settings.corpus is None else list(read_corpus(Path(settings.corpus)).values())


def prepared(settings: Settings, folder: RunFolder, corpus: Sequence[Case]) -> Settings:
    """The settings once the corpus, as it is now, is in the run's folder.

    Raises OSError where that, or the corpus at the end, cannot be written.
    """
    if settings.corpus is None:
        return settings
    check_writable(Path(settings.corpus) / f"added{CASE_SUFFIX}")
    write_atomically(folder.replayed, msgspec.json.encode(corpus))
    return replace(settings, replayed=len(corpus))


def fresh_seed() -> int:
    """A campaign seed of 32 bits, short enough to be typed."""
    return random.SystemRandom().getrandbits(32)
