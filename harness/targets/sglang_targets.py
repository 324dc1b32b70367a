"""The targets of sglang's own, and how they are named."""

from __future__ import annotations

from pathlib import Path

from kv_canary_fuzz.strategies.classify import Domain

from .sglang import load_sglang_kernels, load_sglang_reference
from .target import Target, TargetError, streams_of

SGLANG, SGLANG_REFERENCE = "sglang", "sglang-reference"


def reference_of_sglang(where: str) -> Target:
    """The target of its torch reference; ``where`` is as in `sglang`. Raises TargetError."""
    write, verify, tree = load_sglang_reference(where)
    return Target(
        name=_placed(SGLANG_REFERENCE, where),
        device="cpu",
        write=write,
        verify=verify,
        domains=frozenset({Domain.VALID}),
        contract=tree.contract,
        native=False,
    )


def kernels_of_sglang(where: str) -> Target:
    """The target of its CUDA kernels; ``where`` is as in `sglang`. Raises TargetError."""
    write, verify, tree = load_sglang_kernels(where)
    return Target(
        name=_placed(SGLANG, where),
        device="cuda",
        write=write,
        verify=verify,
        domains=frozenset({Domain.VALID}),
        contract=tree.contract,
        streams=streams_of("cuda", captures=True),
    )


def _placed(name: str, where: str) -> str:
    return f"{name}:{where}" if where else name


def sglang_names(
    target: str, reference: str, tree: Path | None, patch: Path | None
) -> tuple[str, str]:
    """The names of target and reference where sglang's are taken from a source tree.

    ``patch`` is applied to the target alone. Raises TargetError where what is given is for none.
    """
    theirs = (SGLANG, SGLANG_REFERENCE)
    if patch is not None and target not in theirs:
        raise TargetError(f"a patch is for the targets {' and '.join(theirs)}, not for {target}")
    if tree is not None and target not in theirs and reference not in theirs:
        raise TargetError(f"a source tree is for the targets {' and '.join(theirs)} alone")
    where = "" if tree is None else str(tree.resolve())
    patched = where if patch is None else f"{where}::{patch.resolve()}"
    return (
        _placed(target, patched) if target in theirs else target,
        _placed(reference, where) if reference in theirs else reference,
    )
