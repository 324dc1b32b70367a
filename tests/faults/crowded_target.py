"""A correct target in large memory that cannot be had: for so many launches, counted in a file.

The file's name and the number are in the environment. Beside that, the target itself asks for more
memory than there is where a write's first token says so.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from kv_canary_fuzz.harness.targets import large
from kv_canary_fuzz.harness.targets.target import Target
from kv_canary_fuzz.reference import scalar_model

COUNTER, FAILURES = "KV_TEST_COUNTER", "KV_TEST_FAILURES"
GREEDY_TOKEN = 3001

zeros = large._zeros


def scarce_zeros(size: int, device: torch.device) -> torch.Tensor:
    counter = Path(os.environ[COUNTER])
    met = len(counter.read_text()) if counter.exists() else 0
    if met < int(os.environ[FAILURES]):
        counter.write_text("x" * (met + 1))
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
