"""A target with every fault that a kernel can have; the first token of a write chooses."""

from __future__ import annotations

import json
import os
import random
import runpy
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from io import StringIO
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pytest
from msgspec.structs import replace
from rich.console import Console

from kv_canary_fuzz.harness.campaign.campaign import run_campaign
from kv_canary_fuzz.harness.campaign.profiles import Profile, settings_for
from kv_canary_fuzz.harness.campaign.settings import DomainName
from kv_canary_fuzz.harness.campaign.summary import Summary
from kv_canary_fuzz.harness.isolation.loading import load_isolated
from kv_canary_fuzz.harness.targets.target import Target
from kv_canary_fuzz.strategies.case import Case, Column, WriteStep
from kv_canary_fuzz.strategies.columns import expand
from kv_canary_fuzz.strategies.prng import case_at

HERE = Path(__file__).parent
SEED = int(os.environ.get("KV_FAULT_SEED", "1"))
"""Of what goes wrong where; a round of `make faults` has its own."""

BuildCase = Callable[[str], Case]


def column(*values: int) -> Column:
    return Column(values=values, length=len(values))


@pytest.fixture(scope="session")
def write_of() -> BuildCase:
    """Builds: a case of one launch that writes into slots 1 and 2, and asks for a fault."""
    tokens = runpy.run_path(str(HERE / "faulty_target.py"))["TOKENS"]

    def build(fault: str = "") -> Case:
        write = WriteStep(
            write_offsets=column(0, 2),
            write_seed_slot_indices=column(-1),
            write_num_valid_reqs=1,
            input_ids=column(tokens[fault] if fault else 7, 5),
            positions=column(0, 1),
            out_cache_loc=column(1, 2),
        )
        return Case(num_slots=4, ring_capacity=2, steps=(write,))

    return build


@pytest.fixture(scope="session")
def faulty() -> Iterator[Target]:
    """The faulty target, isolated, with a deadline of 0.3 seconds."""
    sys.path.insert(0, str(HERE))
    try:
        yield load_isolated("faulty_target", 0.3)
    finally:
        sys.path.remove(str(HERE))


@pytest.fixture(scope="session")
def batch(write_of: BuildCase) -> Callable[..., list[Case]]:
    """Builds twelve cases of three launches each; by number, the fault of the second launch."""

    def build(faults: Mapping[int, str] = MappingProxyType({})) -> list[Case]:
        (plain,) = write_of().steps
        return [
            replace(case, steps=(plain, *case.steps, plain))
            for case in (write_of(faults.get(number, "")) for number in range(12))
        ]

    return build


Fits = Callable[[Case, WriteStep], bool]
KeyOf = Callable[[bytes, bytes, bytes], str]


class Place(NamedTuple):
    """A write launch: the index of its case, and the key that tells it from all others."""

    index: int
    key: str


def anywhere(_case: Case, _step: WriteStep) -> bool:
    return True


class Planned:
    """A campaign of ``count`` valid cases in ``folder``, and the launches that can go wrong in it.

    Only eager launches are chosen, and those that no other launch of the campaign equals.
    """

    def __init__(self, folder: Path, count: int, key_of: KeyOf) -> None:
        self._folder = folder
        self._key_of = key_of
        self.cases = [case_at(SEED, index, "valid") for index in range(count)]
        self._chance = random.Random(SEED)
        self._plan: dict[str, str] = {}
        self._taken: set[int] = set()
        self._places = self._unique()

    def _unique(self) -> list[tuple[Place, Case, WriteStep]]:
        found = [
            (Place(index, self._key(step)), case, step)
            for index, case in enumerate(self.cases)
            for step in case.steps
            if isinstance(step, WriteStep)
        ]
        keys = [place.key for place, _, _ in found]
        once = {key for key, count in Counter(keys).items() if count == 1}
        return [(p, c, s) for p, c, s in found if p.key in once and c.launching == "eager"]

    def _key(self, step: WriteStep) -> str:
        columns = step.input_ids, step.positions, step.out_cache_loc
        return self._key_of(*(np.array(expand(c), np.int64).tobytes() for c in columns))

    def put(
        self, fault: str, fits: Fits = anywhere, *, among: Collection[int] = (), victim: int = 0
    ) -> int:
        """Let one launch of a case that nothing else happens to have the fault; which case.

        Nor does anything else happen to its ``victim``, the case so far from it that it spoils.
        """
        choice = [
            place
            for place, case, step in self._places
            if self._taken.isdisjoint((place.index, place.index + victim))
            and (not among or place.index in among)
            and fits(case, step)
        ]
        place = self._chance.choice(choice)
        self._taken |= {place.index, place.index + victim}
        self._plan[place.key] = fault
        return place.index

    def faults_of(self, case: Case) -> set[str]:
        """What goes wrong in the launches of a case."""
        keys = [self._key(step) for step in case.steps if isinstance(step, WriteStep)]
        return {self._plan[key] for key in keys if key in self._plan}

    def put_everywhere(self, fault: str) -> None:
        """Let every write launch have it."""
        self._plan["every launch"] = fault

    def run(self, *, deadline: float = 2.0, shrink_seconds: float = 0.5) -> Summary:
        """Run the campaign on one worker; the current folder must be the campaign's."""
        shutil.copy(HERE / "planned_target.py", self._folder)
        (self._folder / "plan.json").write_text(json.dumps(self._plan))
        settings = settings_for(
            Profile.PLAIN,
            target="planned_target",
            domain=DomainName.VALID,
            seed=SEED,
            cases=len(self.cases),
            shrink_seconds=shrink_seconds,
            deadline=deadline,
        )
        return run_campaign(settings, self._folder / "run", 1, Console(file=StringIO(), width=200))


def blamed(summary: Summary) -> Mapping[str, tuple[int, int]]:
    """By signature, how many cases and the first of them."""
    return {found.signature: (found.count, found.first_index) for found in summary.findings}


@pytest.fixture
def planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Planned]:
    """Makes a campaign of so many cases, in a folder that is the current one from here on."""
    monkeypatch.chdir(tmp_path)
    key_of = runpy.run_path(str(HERE / "planned_target.py"))["key_of"]
    return lambda count: Planned(tmp_path, count, key_of)
