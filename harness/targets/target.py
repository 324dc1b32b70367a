"""A target: anything that offers the two launchers of the contract and names its device."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from kv_canary_fuzz.reference.contract import CONTRACTS, DOCUMENTED, Contract
from kv_canary_fuzz.strategies.classify import Domain

from .streams import CudaStreams, Streams

if TYPE_CHECKING:
    from ..isolation.isolation import Isolation

Launcher = Callable[..., None]

WRITE_LAUNCHER = "launch_canary_write_kernel"
VERIFY_LAUNCHER = "launch_canary_verify_kernel"


CLAIMABLE = frozenset({Domain.VALID, Domain.HARDENED, Domain.REFUSED})
"""The domains that a target can claim to handle as the contract says."""


class TargetError(Exception):
    """A target that cannot be had; the message is one line that says why."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """One implementation under test.

    ``device`` is where its tensors live, as torch spells it. ``domains`` are those it claims to
    handle, ``contract`` is the revision of the contract that it follows. ``set_schedule`` chooses
    an interleaving, where the implementation has that. ``streams`` is what its device can do with
    launches; without it they are put eagerly. ``native`` code may end its process, and
    ``environment`` is what a process for it needs. ``fence`` (address, bytes, open parts) lets code
    under a sanitizer touch the open parts only, and ``leave`` is called before a process that ran
    it ends by itself. ``synchronize`` waits until everything that was launched has ended, and
    raises what came of it; a GPU of CUDA's needs none (see `devices.synchronizer`).
    ``isolation``, where there is one, runs it in other processes in place of the launchers.
    """

    name: str
    device: str
    write: Launcher
    verify: Launcher
    domains: frozenset[Domain] = CLAIMABLE
    contract: Contract = DOCUMENTED
    set_schedule: Callable[[int], None] | None = None
    streams: Streams | None = None
    native: bool = True
    environment: dict[str, str] = field(default_factory=dict)
    fence: Callable[[int, int, Iterable[tuple[int, int]]], None] | None = None
    leave: Callable[[], None] | None = None
    synchronize: Callable[[], None] | None = None
    isolation: Isolation | None = None


def target_of(name: str, offer: Any) -> Target:
    """The target that an object or module offers.

    It needs the two launchers, under the contract's names; ``DEVICE`` (default "cpu"), ``DOMAINS``
    (default all: "valid", "hardened", "refused"), ``CONTRACT`` (a revision's name, default
    "2026-08-28"), ``set_schedule``, ``synchronize`` and ``CAPTURES`` (default False: whether its
    launches can be captured in a CUDA graph) are optional. Raises TargetError where a launcher is
    missing, a domain is none of the three or a revision is unknown.
    """
    missing = [
        n for n in (WRITE_LAUNCHER, VERIFY_LAUNCHER) if not callable(getattr(offer, n, None))
    ]
    if missing:
        raise TargetError(f"target {name!r} lacks {' and '.join(missing)}")
    device = getattr(offer, "DEVICE", "cpu")
    return Target(
        name=name,
        device=device,
        write=getattr(offer, WRITE_LAUNCHER),
        verify=getattr(offer, VERIFY_LAUNCHER),
        domains=_claimed(name, getattr(offer, "DOMAINS", None)),
        contract=_followed(name, getattr(offer, "CONTRACT", DOCUMENTED.name)),
        set_schedule=getattr(offer, "set_schedule", None),
        synchronize=getattr(offer, "synchronize", None),
        streams=streams_of(device, captures=bool(getattr(offer, "CAPTURES", False))),
    )


def streams_of(device: str, *, captures: bool) -> Streams | None:
    """What a device can do with launches; None for one that has no streams."""
    cuda = device.partition(":")[0] == "cuda"
    return CudaStreams(device, captures=captures) if cuda else None


def _claimed(name: str, names: Iterable[str] | None) -> frozenset[Domain]:
    if names is None:
        return CLAIMABLE
    known = {domain.name.lower(): domain for domain in CLAIMABLE}
    unknown = sorted(set(names) - known.keys())
    if unknown:
        raise TargetError(f"target {name!r} claims {unknown}, none of {sorted(known)}")
    return frozenset(known[domain] for domain in names)


def _followed(name: str, revision: str) -> Contract:
    if revision not in CONTRACTS:
        known = ", ".join(CONTRACTS)
        raise TargetError(f"target {name!r} follows contract {revision!r}; there are: {known}")
    return CONTRACTS[revision]


def load_module_target(dotted: str) -> Target:
    """The target that a user's own module is, found from the current folder too.

    Raises TargetError where the import fails or a launcher is missing.
    """
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        module: ModuleType = importlib.import_module(dotted)
    except Exception as error:
        reason = " ".join(str(error).split()) or "no message"
        raise TargetError(
            f"target {dotted!r} cannot be imported: {type(error).__name__}: {reason}"
        ) from error
    finally:
        sys.path.remove(here)
    return target_of(dotted, module)
