"""A reproducer file as a test item: it passes where the two sides agree."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from kv_canary_fuzz.reports.verdict_text import verdict_text

from ..findings.ledger import Ledger, read_ledger
from ..findings.reproducer import Reproducer, ReproducerError, read_reproducer
from ..isolation.loading import load_isolated, load_isolated_reference
from ..judging.check import CaseMismatch
from ..judging.repeats import FLAKY, judge_again


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

    A difference that ``--kv-ledger`` knows is an expected failure.
    """

    def __init__(self, *, reproducer: Reproducer, **keywords: Any) -> None:
        super().__init__(**keywords)
        self._reproducer = reproducer

    def runtest(self) -> None:
        found, deadline = self._reproducer, self.config.option.kv_deadline
        target = load_isolated(self.config.option.kv_target or found.target, deadline)
        reference = load_isolated_reference(found.reference, target.contract, deadline)
        case, verdict = judge_again(found.signature, found.case, target, reference)
        if verdict.agrees:
            return
        flaky = found.signature.startswith(FLAKY)
        signature = found.signature if flaky else verdict.signature
        if self._ledger().knows(target.name, signature):
            pytest.xfail(f"the ledger knows {signature}")
        raise ReplayMismatch(CaseMismatch(case, verdict))

    def _ledger(self) -> Ledger:
        path = self.config.option.kv_ledger
        return Ledger() if path is None else read_ledger(path)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if not isinstance(excinfo.value, ReplayMismatch):
            return super().repr_failure(excinfo, style)
        mismatch = excinfo.value.mismatch
        console = Console(file=StringIO(), width=120, no_color=True)
        console.print(verdict_text(mismatch.case, mismatch.verdict), highlight=False)
        assert isinstance(console.file, StringIO)
        return console.file.getvalue() + f"\nreplay: kv-canary-fuzz replay {self.path}"

    def reportinfo(self) -> tuple[Any, int, str]:
        return self.path, 0, f"{self.path.name}: {self._reproducer.signature}"
