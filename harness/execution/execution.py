"""Running cases: a target launch by launch, the torch reference a whole batch at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from kv_canary_fuzz.reference import RELEASED, Contract, VerifyLaunch, WriteLaunch
from kv_canary_fuzz.reference import Rows as ProducedRows
from kv_canary_fuzz.reference.batch import run_verify_batch, run_write_batch
from kv_canary_fuzz.reference.validation import check_verify, check_write
from kv_canary_fuzz.strategies.case import Case, CorruptStep

from ..targets.memory import pass_on_lack
from ..targets.target import Target
from .arena import Batch
from .binding import Binder
from .launching import play
from .outcome import NO_ROWS, Death, Raised, Rows
from .tensors import Memory

Key = tuple[int, int]
"""(case within the batch, step within the case)"""


@dataclass(frozen=True, kw_only=True)
class Run:
    """What a batch's steps did: exceptions, and for the torch reference the rows produced.

    ``deaths`` names the cases that ended their process.
    """

    raised: dict[Key, Raised] = field(default_factory=dict)
    deaths: dict[int, Death] = field(default_factory=dict)
    rows: dict[Key, Rows] = field(default_factory=dict)

    def rows_of(self, case: int, step: int) -> Rows:
        return self.rows.get((case, step), NO_ROWS)


def _nothing(_: int) -> None:
    pass


def run_target(
    target: Target, batch: Batch, memory: Memory, begin: Callable[[int], None] = _nothing
) -> Run:
    """Run every case of the batch, one after another, on ``memory``.

    ``begin`` is called with the number of each case before its first step. Where launches end later
    than they return, nothing here waits for them, but for whether the replays of graphs agree,
    which is asked behind the last case.
    """
    run = Run()
    played = []
    for index, (case, layout, base) in enumerate(
        zip(batch.cases, batch.layouts, batch.bases, strict=True)
    ):
        begin(index)
        binder = Binder(case, layout, memory, base)
        if target.set_schedule is not None:
            target.set_schedule(case.schedule)
        step = partial(step_target, target, case, binder)
        part = memory.part(base, layout.size)
        played.append(play(case, layout, target, part, step, len(case.steps) - 1))
    for index, one in enumerate(played):
        for number, raised in one.outcome().items():
            run.raised[index, number] = raised
    return run


def step_target(target: Target, case: Case, binder: Binder, number: int) -> Raised | None:
    """Run one step on the target; whatever it raises is its outcome."""
    step = case.steps[number]
    if isinstance(step, CorruptStep):
        binder.corrupt(step)
        return None
    try:
        launch = binder.launch(number)
    except Exception as error:
        pass_on_lack(error, "tensors of a launch")
        return Raised.of(error)
    try:
        launcher = target.write if isinstance(launch, WriteLaunch) else target.verify
        launcher(**launch.arguments())
    except Exception as error:
        return Raised.of(error)
    return None


def run_reference(batch: Batch, memory: Memory, contract: Contract = RELEASED) -> Run:
    """Run the torch reference on every case, the same step of all cases together."""
    run = Run()
    binders = [
        Binder(case, batch.layouts[index], memory, batch.bases[index])
        for index, case in enumerate(batch.cases)
    ]
    longest = max((len(case.steps) for case in batch.cases), default=0)
    for number in range(longest):
        step_reference(batch.cases, binders, number, run, contract)
    return run


def step_reference(
    cases: tuple[Case, ...], binders: list[Binder], number: int, run: Run, contract: Contract
) -> None:
    """Run step ``number`` of all cases that have one, and add what it did to ``run``."""
    writes: list[tuple[int, WriteLaunch]] = []
    verifies: list[tuple[int, VerifyLaunch]] = []
    for index, case in enumerate(cases):
        if number >= len(case.steps):
            continue
        step = case.steps[number]
        if isinstance(step, CorruptStep):
            binders[index].corrupt(step)
            continue
        try:
            launch = binders[index].launch(number)
            if isinstance(launch, WriteLaunch):
                check_write(launch, contract=contract)
                writes.append((index, launch))
            else:
                check_verify(launch, contract=contract)
                verifies.append((index, launch))
        except ValueError as error:
            run.raised[index, number] = Raised.of(error)
    if writes:
        rows = run_write_batch([launch for _, launch in writes])
        _collect_rows(run, [index for index, _ in writes], number, rows)
    if verifies:
        rows = run_verify_batch([launch for _, launch in verifies])
        _collect_rows(run, [index for index, _ in verifies], number, rows)


def _collect_rows(run: Run, owners: list[int], number: int, produced: ProducedRows) -> None:
    """File the rows under (case, step); ``owners`` gives the case of each launch."""
    values = produced.values.cpu().numpy()
    grouped: defaultdict[int, list[int]] = defaultdict(list)
    for position, launch in enumerate(produced.launch.tolist()):
        grouped[launch].append(position)
    for launch, positions in grouped.items():
        run.rows[owners[launch], number] = values[positions]
