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
from kv_canary_fuzz.reference import scalar_model

COUNTER, FAILURES = "KV_TEST_COUNTER", "KV_TEST_FAILURES"
GREEDY_TOKEN = 3001

launch_canary_verify_kernel = scalar_model.launch_canary_verify_kernel
zeros = large._zeros


def scarce(size: int, device: torch.device) -> torch.Tensor:
    counter = Path(os.environ[COUNTER])
    met = len(counter.read_text()) if counter.exists() else 0
    if met < int(os.environ[FAILURES]):
        counter.write_text("x" * (met + 1))
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 4.00 GiB.")
    return zeros(min(size, 4096), device)


large._zeros = scarce


def launch_canary_write_kernel(**arguments: Any) -> None:
    if int(arguments["input_ids"][0]) == GREEDY_TOKEN:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9.00 GiB.")
    scalar_model.launch_canary_write_kernel(**arguments)
