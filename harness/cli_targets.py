"""The command line about targets: which there are, what they lack, how fast they are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from kv_canary_fuzz.reports.board_text import board_table, closing_lines, kinds_table

from .atomic_file import check_writable, write_atomically
from .bench.gpu_report import report_gpu_bench
from .bench.isolation_cost import isolation_cost
from .bench.stages import fast_path, reference_speed
from .board.board import SEEDS, board_json, known_bugs, run_board
from .campaign.campaign import usable_cores
from .conformance.conformance import conformance
from .gpu_sanitizers import CASES, Tool, check_kernels
from .isolation.loading import load_isolated
from .targets.builtin import BUILTIN, load_target
from .targets.target import TargetError

app = typer.Typer()

TargetOption = Annotated[
    str, typer.Option(help="A built-in target, planted:BUG, or a module's dotted name.")
]
WorkersOption = Annotated[
    int | None, typer.Option(min=1, help="Processes; one per core if absent, at most 10 per GPU.")
]


@app.command()
def bench(
    target: TargetOption = "emulated",
    seed: Annotated[int, typer.Option(help="Seed of the cases.")] = 1,
    batches: Annotated[int, typer.Option(min=1, help="Batches of 512 cases.")] = 20,
    shuffled: Annotated[bool, typer.Option(help="On a GPU: slots in random order.")] = False,
    json: Annotated[Path | None, typer.Option(help="On a GPU: a file for the figures.")] = None,
) -> None:
    """Measure a target: on a GPU its launches one by one, elsewhere cases per second."""
    chosen = load_target(target)
    if json is not None:
        check_writable(json)
    if chosen.device == "cuda":
        report_gpu_bench(chosen, Console(width=120), shuffled=shuffled, json_file=json)
        return
    if chosen.fence is not None:
        chosen = load_isolated(target)
    for line in (*fast_path(chosen, seed=seed, batches=batches), *reference_speed()):
        typer.echo(line)
    if chosen.native and chosen.isolation is None:
        rounds, workers = max(1, batches // 4), usable_cores()
        typer.echo(isolation_cost(chosen.name, seed=seed, rounds=rounds, workers=workers))


@app.command("conformance")
def check_conformance(
    module: Annotated[str, typer.Argument(help="A module's dotted name, or any other target.")],
) -> None:
    """Check a target against the contract, and say what is missing; exit status 1 where it is."""
    missing = 0
    for check in conformance(module):
        typer.echo(f"{check.state:<12} {check.name}")
        for line in check.lines:
            typer.echo(f"{'':<12}   {line}")
        missing += check.state == "missing"
    typer.echo(f"{missing} of the checks failed" if missing else f"{module} conforms")
    raise typer.Exit(1 if missing else 0)


@app.command()
def targets() -> None:
    """List the built-in targets, and say why one is unavailable."""
    table = Table("target", "what it is", "available")
    for name, (what, _) in BUILTIN.items():
        try:
            load_target(name)
            state = "yes"
        except TargetError as error:
            state = f"no: {error}"
        table.add_row(name, what, state)
    Console().print(table, highlight=False, markup=False)


@app.command()
def mutants(
    only: Annotated[list[str] | None, typer.Option(help="A bug's name or a kind of bugs.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Campaign seeds, from 1 on.")] = len(SEEDS),
    workers: WorkersOption = None,
    json: Annotated[Path | None, typer.Option(help="A file for the figures.")] = None,
) -> None:
    """Hunt every planted bug; exit status 1 where a seed did not find one."""
    console = Console(width=160)
    names = known_bugs(only or ())
    if json is not None:
        check_writable(json)
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("hunts", total=len(names) * seeds)
        standings = run_board(
            names,
            range(1, seeds + 1),
            workers=workers or usable_cores(),
            show=lambda done: progress.update(task, completed=done),
        )
    for table in (board_table(standings), kinds_table(standings)):
        console.print(table, highlight=False, markup=False)
    for line in closing_lines(standings):
        console.print(line, highlight=False, markup=False)
    if json is not None:
        write_atomically(json, board_json(standings))
    raise typer.Exit(0 if all(standing.found for standing in standings) else 1)


@app.command("sanitize-gpu")
def sanitize_gpu(
    cases: Annotated[int, typer.Option(min=1, help="Cases for each tool.")] = CASES,
    tool: Annotated[list[Tool] | None, typer.Option(help="A tool; all three if absent.")] = None,
) -> None:
    """Run the CUDA kernels under compute-sanitizer; exit status 1 where a tool reports anything."""
    clean = True
    for name, report in check_kernels(cases, tool or tuple(Tool)):
        typer.echo(f"{name}: {report or f'clean over {cases} cases'}")
        clean = clean and not report
    raise typer.Exit(0 if clean else 1)
