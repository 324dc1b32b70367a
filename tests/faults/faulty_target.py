"""A correct target that does, when it meets certain tokens, what kernels must not."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import sys
import time
from collections import Counter
from typing import Any

from kv_canary_fuzz.reference import scalar_model

FAULTS = (
    *(
        "sometimes",
        "segfault",
        "bus error",
        "abort",
        "spin",
        "sleep",
        "status",
        "exit",
        "allocate",
        "tensor",
    ),
    *("killed", "cuda", "miscount", "rarely", "remember", "recall", "astray"),
)
TOKENS = {name: 1001 + number for number, name in enumerate(FAULTS)}
"""The token of a write's first entry that asks for a fault."""

SIGNALS = {
    "segfault": signal.SIGSEGV,
    "bus error": signal.SIGBUS,
    "abort": signal.SIGABRT,
    "killed": signal.SIGKILL,
}
CUDA_ERROR = """\
CUDA error: an illegal memory access was encountered
Search for `cudaErrorIllegalAddress' in https://docs.nvidia.com/cuda for more information.
CUDA kernel errors might be asynchronously reported at some other API call.
"""
OFTEN = {"miscount": 1, "rarely": 64}
"""Which of the launches with such a fault in one process count one slot too many."""

met = Counter[str]()
launches = mmap.mmap(-1, 1)
"""Launches that are to fail sometimes, of all processes together: forks share these bytes."""

launch_canary_verify_kernel = scalar_model.launch_canary_verify_kernel


def launch_canary_write_kernel(**arguments: Any) -> None:
    token = int(arguments["input_ids"][0])
    scalar_model.launch_canary_write_kernel(**arguments)
    if token > 1000:
        misbehave(FAULTS[token - 1001], arguments)


def misbehave(fault: str, arguments: dict[str, Any]) -> None:
    if fault in SIGNALS:
        print(f"about to die: {fault}", file=sys.stderr, flush=True)
        os.kill(os.getpid(), SIGNALS[fault])
    elif fault == "spin":
        while True:
            pass
    elif fault == "sleep":
        time.sleep(3600)
    elif fault == "status":
        os._exit(3)
    elif fault == "exit":
        sys.exit(4)
    elif fault == "allocate":
        raise MemoryError
    elif fault == "tensor":
        arguments["input_ids"].new_empty(1 << 40)
    elif fault == "cuda":
        raise RuntimeError(CUDA_ERROR)
    elif fault == "remember":
        met["to be recalled"] += 1
    elif fault == "recall" and met["to be recalled"] >= 2:
        arguments["context"].slot_run_counter.add_(1)
    elif fault == "astray":
        buffer = arguments["context"].canary_buf
        ctypes.memset(buffer.data_ptr() + buffer.nbytes + 2000, 0xA5, 16)
    elif fault == "sometimes":
        launches[0] = (launches[0] + 1) % 3
        if launches[0] == 0:
            arguments["context"].slot_run_counter.add_(1)
    elif fault in OFTEN:
        met[fault] += 1
        if met[fault] % OFTEN[fault] == 0:
            arguments["context"].slot_run_counter.add_(1)
