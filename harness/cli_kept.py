"""``kv-canary-fuzz corpus ...`` and ``kv-canary-fuzz ledger ...``: what is kept from run to run."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Annotated

import typer

from kv_canary_fuzz.strategies.prng import case_at

from .atomic_file import check_writable
from .campaign.blocks import block_trace
from .campaign.corpus import add_to_corpus, minimise, read_corpus
from .campaign.profiles import CORPUS, LEDGER
from .campaign.run_folder import CASE_SUFFIX
from .campaign.settings import DomainName
from .campaign.summary import read_summary
from .findings.standing import update_ledger

corpus_app = typer.Typer(no_args_is_help=True, help="The cases that are replayed first.")
ledger_app = typer.Typer(no_args_is_help=True, help="The findings that are known.")

FolderArgument = Annotated[Path, typer.Argument(help="The corpus.")]


@corpus_app.command()
def init(
    folder: FolderArgument = CORPUS,
    cases: Annotated[int, typer.Option(help="Generated cases to choose from.")] = 4000,
    seed: Annotated[int, typer.Option(help="Their seed.")] = 1,
) -> None:
    """Make a corpus of generated cases that reach what all of those do."""
    folder.mkdir(parents=True, exist_ok=True)
    check_writable(folder / f"added{CASE_SUFFIX}")
    made = (case_at(seed, index, DomainName.ALL) for index in range(cases))
    blocks_of = block_trace()
    add_to_corpus(folder, made, blocks_of)
    _, kept = minimise(folder, blocks_of)
    typer.echo(f"{folder}: {kept:,} cases")


@corpus_app.command()
def merge(
    folder: FolderArgument,
    others: Annotated[list[Path], typer.Argument(help="Corpora to take cases from.")],
    smallest: Annotated[
        bool, typer.Option("--minimize", help="Then delete what the rest makes needless.")
    ] = False,
) -> None:
    """Add those cases of other corpora that reach a pair of features or a block anew."""
    folder.mkdir(parents=True, exist_ok=True)
    check_writable(folder / f"added{CASE_SUFFIX}")
    blocks_of = block_trace()
    added = sum(
        len(add_to_corpus(folder, read_corpus(other).values(), blocks_of)) for other in others
    )
    typer.echo(f"{folder}: {added:,} cases added")
    if smallest:
        minimize(folder)


@corpus_app.command()
def minimize(folder: FolderArgument = CORPUS) -> None:
    """Delete the cases that the others make needless; all pairs and basic blocks stay."""
    before, after = minimise(folder, block_trace())
    typer.echo(f"{folder}: {before:,} cases before, {after:,} after")


@ledger_app.command()
def update(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs, or their run.json.")],
    ledger: Annotated[Path, typer.Option(help="The file.")] = LEDGER,
) -> None:
    """Add what runs found anew, with its reproducer, and mark what no longer happens."""
    for run in runs:
        for line in update_ledger(ledger, read_summary(run), date.today()):
            typer.echo(line)
    typer.echo(f"written to {ledger}")
