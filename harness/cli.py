"""The command line: campaigns, replaying and shrinking, runs and what is kept of them."""

from __future__ import annotations

import errno
import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import replace
from rich.console import Console

from kv_canary_fuzz.reports.case_text import sequence_text
from kv_canary_fuzz.reports.comparison_text import comparison_lines
from kv_canary_fuzz.reports.publish import render
from kv_canary_fuzz.reports.verdict_text import verdict_text

from .atomic_file import check_writable, fault_of, sweep
from .bench.gpu_bench import BenchError
from .board.hunters import BoardError
from .campaign.campaign import (
    default_folder,
    run_campaign,
    usual_workers,
)
from .campaign.corpus import CorpusError
from .campaign.profiles import Profile, settings_for
from .campaign.run_folder import RunFolder
from .campaign.settings import DomainName, SettingsError
from .campaign.summary import RunError, read_summary, run_schema
from .campaign.tenancy import FolderTaken
from .cli_kept import corpus_app, ledger_app
from .cli_targets import TargetOption, WorkersOption
from .cli_targets import app as targets_app
from .execution.outcome import CRASH
from .findings.ledger import LedgerError
from .findings.reproducer import (
    Reproducer,
    ReproducerError,
    read_reproducer,
    write_reproducer,
)
from .findings.shrunk_file import shrunk
from .gpu_sanitizers import SanitizerMissing
from .isolation.loading import FLOOR_SECONDS, load_isolated, load_isolated_reference
from .judging.opinion import who_stands_alone
from .judging.repeats import FLAKY, judge_again
from .judging.together import company_line
from .targets.builtin import load_other, sanitized_name
from .targets.memory import ShortOfMemory
from .targets.sglang_targets import sglang_names
from .targets.target import Target, TargetError

USAGE_ERROR = 2


class NotWhole(Exception):
    """A run that ended early since it could not write its files; the message is one line."""


CALLERS_ERRORS = (
    BenchError,
    BoardError,
    CorpusError,
    FolderTaken,
    LedgerError,
    NotWhole,
    ReproducerError,
    RunError,
    SanitizerMissing,
    SettingsError,
    ShortOfMemory,
    TargetError,
)

app = typer.Typer(
    add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, help=__doc__
)

FileArgument = Annotated[Path, typer.Argument(help="A reproducer, *.kvcase.json.")]
ReplayTarget = Annotated[
    str, typer.Option("--target", help="Instead of the target that the file names.")
]


SglangOption = Annotated[
    Path | None, typer.Option(help="A source tree that sglang's targets are taken from.")
]
PatchOption = Annotated[
    Path | None, typer.Option(help="A unified diff for a copy of sglang's source: planted bugs.")
]
ThirdOption = Annotated[
    str | None, typer.Option(help="Who says who stands alone; the scalar model if absent.")
]
RunArgument = Annotated[Path, typer.Argument(help="A run's folder, or its run.json.")]

app.add_typer(targets_app)
app.add_typer(corpus_app, name="corpus")
app.add_typer(ledger_app, name="ledger")


@app.command()
def run(
    target: TargetOption = "auto",
    reference: Annotated[str, typer.Option(help="What the target is compared with.")] = "torch",
    domain: Annotated[DomainName, typer.Option(help="What is generated.")] = DomainName.CLAIMED,
    profile: Annotated[
        Profile, typer.Option(help="What holds where nothing else is said.")
    ] = Profile.PLAIN,
    seconds: Annotated[float | None, typer.Option(help="End after this time.")] = None,
    cases: Annotated[int | None, typer.Option(help="End after this many cases.")] = None,
    seed: Annotated[int | None, typer.Option(help="The campaign's seed; fresh if absent.")] = None,
    workers: WorkersOption = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder.")] = None,
    shrink_seconds: Annotated[float, typer.Option(help="Budget for each finding.")] = 60.0,
    corpus: Annotated[Path | None, typer.Option(help="Replayed first, and added to.")] = None,
    ledger: Annotated[Path | None, typer.Option(help="File with the known findings.")] = None,
    deadline: Annotated[
        float, typer.Option(help="Processor seconds that any launch may take.")
    ] = FLOOR_SECONDS,
    sanitize: Annotated[
        bool, typer.Option("--sanitize", help="The emulated build under sanitizers.")
    ] = False,
    sglang: SglangOption = None,
    patch: PatchOption = None,
    third: ThirdOption = None,
    coverage: Annotated[
        bool,
        typer.Option(
            "--coverage", help="Say which lines and branches of the CUDA source are reached."
        ),
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="A line as a finding is found and written.")
    ] = False,
) -> None:
    """Fuzz a target; exit status 1 where something was found that the ledger does not know.

    The same where what the ledger tolerates no longer happens; 2 where files could not be written.
    """
    settings = settings_for(
        profile,
        target=sanitized_name(target) if sanitize else target,
        reference=reference,
        domain=domain,
        seed=seed,
        cases=cases,
        seconds=seconds,
        shrink_seconds=shrink_seconds,
        corpus=corpus,
        ledger=ledger,
        deadline=deadline,
        sglang=sglang,
        patch=patch,
        third=third,
        coverage=coverage,
    )
    folder = out or default_folder(settings.seed)
    workers = workers or usual_workers(settings.target)
    summary = run_campaign(settings, folder, workers, Console(), verbose=verbose)
    if summary.shortcoming:
        raise NotWhole(summary.shortcoming)
    raise typer.Exit(1 if summary.fails else 0)


@app.command()
def replay(
    file: FileArgument,
    target: ReplayTarget = "",
    sglang: SglangOption = None,
    patch: PatchOption = None,
    third: ThirdOption = None,
) -> None:
    """Run a reproducer; exit status 1 where the two sides differ."""
    agrees = _explain(Console(), *_opened(file, target, sglang, patch), third)
    raise typer.Exit(0 if agrees else 1)


@app.command()
def show(file: FileArgument, target: ReplayTarget = "") -> None:
    """Explain a reproducer: its state, its steps, and the bytes that differ."""
    found, chosen, reference = _opened(file, target)
    console = Console()
    console.print(f"{file}: {found.signature}", highlight=False, markup=False)
    console.print(
        f"target {found.target}, reference {found.reference}, "
        f"campaign seed {found.seed}, index {found.index}",
        highlight=False,
        markup=False,
    )
    console.print(sequence_text(found.case, found.company), highlight=False)
    _explain(console, found, chosen, reference)


@app.command()
def shrink(
    file: FileArgument,
    target: ReplayTarget = "",
    seconds: Annotated[float, typer.Option(help="Budget.")] = 60.0,
    out: Annotated[Path | None, typer.Option(help="Where to; beside FILE if absent.")] = None,
) -> None:
    """Shrink a reproducer, pinned to the signature that it shows now."""
    stem = file.name.removesuffix(".kvcase.json")
    path = out or file.with_name(f"{stem}.shrunk.kvcase.json")
    found, chosen, reference = _opened(file, target)
    sweep(path.parent)
    check_writable(path)
    _, verdict = judge_again(found.signature, found.case, chosen, reference, found.company)
    if verdict.agrees:
        typer.echo(f"{file}: the two sides agree, there is nothing to shrink")
        raise typer.Exit(0)
    flaky = FLAKY if found.signature.startswith(FLAKY) else ""
    pinned = replace(found, signature=flaky + verdict.signature)
    small, _ = shrunk(pinned, chosen, reference, path, seconds)
    Console().print(sequence_text(small.case, small.company), highlight=False)
    write_reproducer(path, small)
    typer.echo(f"written to {path}")


@app.command()
def report(run: RunArgument) -> None:
    """Draw a run's report again, from its run.json."""
    summary = read_summary(run)
    folder = RunFolder(run if run.is_dir() else run.parent)
    sweep(folder.root)
    render(folder, summary)
    typer.echo(f"written to {folder.report}")


@app.command()
def compare(before: RunArgument, after: RunArgument) -> None:
    """Say what is new, gone, faster or slower in the second of two runs."""
    for line in comparison_lines(read_summary(before), read_summary(after)):
        typer.echo(line)


@app.command()
def schema() -> None:
    """Print the JSON schema of run.json."""
    typer.echo(json.dumps(run_schema(), indent=2))


def _explain(
    console: Console,
    found: Reproducer,
    target: Target,
    reference: Target | None,
    third: str | None = None,
) -> bool:
    """Print where the two sides part and who stands alone; whether they agree."""
    case, verdict = judge_again(found.signature, found.case, target, reference, found.company)
    if found.company.size:
        console.print(company_line(found.company, verdict), highlight=False)
    console.print(verdict_text(case, verdict), highlight=False)
    steady = not found.company.size and not found.signature.startswith((CRASH, FLAKY))
    if not verdict.agrees and steady:
        asked = None if third is None else load_other(third, target.contract)
        console.print(who_stands_alone(found.case, target, reference, asked), highlight=False)
    return verdict.agrees


def _opened(
    file: Path, target: str, sglang: Path | None = None, patch: Path | None = None
) -> tuple[Reproducer, Target, Target | None]:
    found = read_reproducer(file)
    name, other = sglang_names(target or found.target, found.reference, sglang, patch)
    chosen = load_isolated(name)
    return found, chosen, load_isolated_reference(other, chosen.contract)


def main() -> None:
    """The console script: errors that are the caller's are one line and exit status 2."""
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except CALLERS_ERRORS as error:
        print(error, file=sys.stderr)
        sys.exit(USAGE_ERROR)
    except OSError as error:
        if error.filename is None and error.errno == errno.ENOSPC:
            error.filename = "standard output"
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nor at exit
        print(fault_of(error), file=sys.stderr)
        sys.exit(USAGE_ERROR)
