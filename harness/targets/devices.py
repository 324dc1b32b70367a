"""Which of a machine's GPUs a worker uses, and how many workers they bear."""

from __future__ import annotations

import re
from collections.abc import Callable

import torch

from .large import LARGE_PREFIX
from .target import Target

MOST_WORKERS = 10
"""Of one GPU: each has a context there, and more of them only wait for each other."""
MOST_LARGE_WORKERS = 2
"""Of one GPU, where each takes up to `LARGE_BYTES` of its memory."""
LARGE_BYTES = 40 * 2**30


def is_gpu(target: Target) -> bool:
    return torch.device(target.device).type == "cuda"


def synchronizer(target: Target) -> Callable[[], None] | None:
    """What waits until the target's launches have ended; None where they end as they return."""
    return target.synchronize or (_synchronize if is_gpu(target) else None)


def _synchronize() -> None:
    if not torch.cuda.is_current_stream_capturing():
        torch.cuda.synchronize()


def is_crowded(target: Target) -> bool:
    """Whether others hold most of the memory of the target's GPU, so that it can have none."""
    if not is_gpu(target):
        return False
    free, total = torch.cuda.mem_get_info(target.device)
    return free + torch.cuda.memory_reserved(target.device) < total // 2


def most_workers(target: Target) -> int | None:
    """How many workers the target's GPUs bear; None where it has none."""
    if not is_gpu(target):
        return None
    most, index = MOST_WORKERS, torch.device(target.device).index
    if target.name.startswith(LARGE_PREFIX):
        room = torch.cuda.get_device_properties(index or 0).total_memory // LARGE_BYTES
        most = max(1, min(room, MOST_LARGE_WORKERS))
    return most * (max(1, torch.cuda.device_count()) if index is None else 1)


def use_gpu_of(worker: int, target: Target) -> None:
    """Make a GPU the current one of this process: worker after worker the next, and round again.

    A target that names its GPU, or is on none, is left alone.
    """
    gpus = torch.cuda.device_count() if is_gpu(target) else 0
    if gpus and torch.device(target.device).index is None:
        torch.cuda.set_device(worker % gpus)


def xdist_worker(name: str) -> int:
    """The number in the name of a pytest-xdist worker, ``gw3`` for one; 0 for no such name."""
    number = re.fullmatch(r"gw(\d+)", name)
    return int(number[1]) if number else 0
