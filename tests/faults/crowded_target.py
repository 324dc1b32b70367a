"""A correct target in large memory that cannot be had, as often as a file says that it cannot yet.

The file's name is in the environment. Beside that, the target itself asks for more memory than
there is where a write's first token says so.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from kv_canary_fuzz.harness.targets import large
from kv_canary_fuzz.harness.targets.target import Target
from kv_canary_fuzz.reference import scalar_model

FAILURES = "KV_TEST_FAILURES"
GREEDY_TOKEN = 3001

zeros = large._zeros


def scarce_zeros(size: int, device: torch.device) -> torch.Tensor:
    failures = Path(os.environ[FAILURES])
    left = int(failures.read_text())
    if left:
        failures.write_text(str(left - 1))
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 4.00 GiB.")
    return zeros(size, device)


def greedy_write(**arguments: Any) -> None:
    if GREEDY_TOKEN in arguments["input_ids"]:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9.00 GiB.")
    scalar_model.launch_canary_write_kernel(**arguments)


large._zeros = scarce_zeros
spread = large.large_target(
    Target(
        name="greedy",
        device="cpu",
        write=greedy_write,
        verify=scalar_model.launch_canary_verify_kernel,
    ),
    large.Expanse(reach=2**16, requests=(65,), entries=(65,)),
)
DOMAINS = ("valid",)
launch_canary_write_kernel = spread.write
launch_canary_verify_kernel = spread.verify
