"""A reproducer file as a test item: it passes where the two sides agree."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from kv_canary_fuzz.reports.verdict_text import verdict_text

from ..findings.ledger import Ledger, read_ledger
from ..findings.quarantine import quarantine_of
from ..findings.reproducer import Reproducer, ReproducerError, read_reproducer
from ..isolation.loading import load_isolated, load_isolated_reference
from ..judging.check import CaseMismatch
from ..judging.repeats import FLAKY, judge_again
from ..targets.builtin import BUILTIN
from ..targets.sglang_targets import SGLANG, SGLANG_REFERENCE, sglang_names
from ..targets.target import Target, TargetError

ADVICE = "set its state in the ledger to fixed, or run kv-canary-fuzz ledger update RUN"


class NoLongerHappens(Exception):
    """The ledger tolerates what the file shows, and it does not show it any more."""


class ReplayMismatch(Exception):
    """The two sides still differ on the file's case."""

    def __init__(self, mismatch: CaseMismatch) -> None:
        super().__init__(str(mismatch))
        self.mismatch = mismatch


class ReproducerFile(pytest.File):
    """A ``*.kvcase.json``; a damaged one is a collection error of one line."""

    def collect(self) -> Iterator[pytest.Item]:
        try:
            found = read_reproducer(self.path)
        except ReproducerError as error:
            raise self.CollectError(str(error)) from error
        yield ReproducerItem.from_parent(self, name="replay", reproducer=found)


class ReproducerItem(pytest.Item):
    """Runs the file's case on the target of ``--kv-target``, else on the one the file names.

    Targets of sglang's are from ``--kv-sglang``, with ``--kv-patch`` applied, where that is given.
    A difference that ``--kv-ledger`` knows is an expected failure. What the ledger quarantines is
    not launched; the reproducer of an entry that it tolerates fails when it no longer shows that.
    Skipped where the file names a built-in target that this machine cannot run.
    """

    def __init__(self, *, reproducer: Reproducer, **keywords: Any) -> None:
        super().__init__(**keywords)
        self._reproducer = reproducer

    def runtest(self) -> None:
        found, deadline = self._reproducer, self.config.option.kv_deadline
        name, other = self._names()
        target = self._target(name)
        reference = load_isolated_reference(other, target.contract, deadline)
        file = self.config.option.kv_ledger
        ledger = Ledger() if file is None else read_ledger(file)
        if quarantine_of(None if file is None else str(file), target.name).holds(found.case):
            pytest.skip(f"the ledger quarantines it for {target.name}")
        case, verdict = judge_again(found.signature, found.case, target, reference, found.company)
        if verdict.agrees:
            if file is not None and self._is_tolerated(ledger, target.name, file.parent):
                raise NoLongerHappens(f"{found.signature} no longer happens; {ADVICE}")
            return
        flaky = found.signature.startswith(FLAKY)
        signature = found.signature if flaky else verdict.signature
        if ledger.knows(target.name, signature):
            pytest.xfail(f"the ledger knows {signature}")
        raise ReplayMismatch(CaseMismatch(case, verdict))

    def _is_tolerated(self, ledger: Ledger, target: str, folder: Path) -> bool:
        """Whether this file is the reproducer of an entry that the ledger tolerates."""
        entry = ledger.entry(target, self._reproducer.signature)
        if entry is None or entry.state != "tolerated" or not entry.reproducer:
            return False
        return (folder / entry.reproducer).resolve() == self.path.resolve()

    def _names(self) -> tuple[str, str]:
        """The target and what it is compared with."""
        option = self.config.option
        names = option.kv_target or self._reproducer.target, self._reproducer.reference
        if {SGLANG, SGLANG_REFERENCE}.isdisjoint(names):
            return names
        patch = option.kv_patch if names[0] in (SGLANG, SGLANG_REFERENCE) else None
        return sglang_names(*names, option.kv_sglang, patch)

    def _target(self, name: str) -> Target:
        try:
            return load_isolated(name, self.config.option.kv_deadline)
        except TargetError as error:
            if self.config.option.kv_target or name not in BUILTIN:
                raise
            pytest.skip(str(error))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, NoLongerHappens | TargetError):
            return str(excinfo.value)
        if not isinstance(excinfo.value, ReplayMismatch):
            return super().repr_failure(excinfo, style)
        mismatch = excinfo.value.mismatch
        console = Console(file=StringIO(), width=120, no_color=True)
        console.print(verdict_text(mismatch.case, mismatch.verdict), highlight=False)
        assert isinstance(console.file, StringIO)
        return console.file.getvalue() + f"\nreplay: kv-canary-fuzz replay {self.path}"

    def reportinfo(self) -> tuple[Any, int, str]:
        return self.path, 0, f"{self.path.name}: {self._reproducer.signature}"
