"""Our kernels on the CPU, with faults at the launches that a file of the current folder names.

The faults are real ones: a signal comes from the machine, a write goes where it must not.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import sys
import tempfile
import time
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kv_canary_fuzz.kernels import emulated

PLAN = "plan.json"
LINE = 64
"""Cases lie at multiples of so many bytes, and begin and end with as many that are nobody's."""

_kernels = emulated.build()
_libc = ctypes.CDLL(None)
_libc.malloc.restype = ctypes.c_void_p
_kept: list[object] = []
_launches = mmap.mmap(-1, 8)  # of all processes together: forks share these bytes

set_schedule = _kernels.set_schedule
launch_canary_verify_kernel = _kernels.launch_canary_verify_kernel


@cache
def plan() -> dict[str, str]:
    """Faults by the key of the launch."""
    found: dict[str, str] = json.loads(Path(PLAN).read_text())
    return found


def key_of(input_ids: bytes, positions: bytes, out_cache_loc: bytes) -> str:
    """What tells the launches of a campaign apart."""
    return f"{zlib.crc32(input_ids + positions + out_cache_loc):08x}"


def launch_canary_write_kernel(**arguments: Any) -> None:
    _kernels.launch_canary_write_kernel(**arguments)
    columns = (arguments[name] for name in ("input_ids", "positions", "out_cache_loc"))
    fault = plan().get(key_of(*(column.numpy().tobytes() for column in columns)))
    for one in (plan().get("every launch"), fault):
        if one is not None:
            misbehave(one, arguments)


def misbehave(fault: str, arguments: dict[str, Any]) -> None:
    if fault in _DEADLY:
        _DEADLY[fault]()
    elif fault.startswith("leak "):
        _kept.append(np.empty(int(fault.removeprefix("leak ")), np.uint8))
    elif fault == "one in a hundred":
        count = int.from_bytes(_launches[:8], "little") + 1
        _launches[:8] = count.to_bytes(8, "little")
        if zlib.crc32(_launches[:8]) % 100 == 0 or count == 40:
            arguments["context"].slot_run_counter.bitwise_xor_(1 << 40)
    elif fault == "next case":
        last = arguments["context"].enable_chain_position_assert
        end = last.data_ptr() + last.nbytes
        poke(-(-(end + LINE) // LINE) * LINE + LINE // 2, 0xA5)
    elif fault == "case before":
        start = arguments["context"].canary_buf.data_ptr() // LINE * LINE - LINE
        poke(start - LINE // 2, 0xA5)
    elif fault == "remember":
        _kept.append("launch")
    elif fault == "recall" and "launch" in _kept:
        arguments["context"].slot_run_counter.add_(1)
    elif fault.startswith(("before ", "behind ")):
        side, name = fault.split(" ", 1)
        tensor = named(arguments, name)
        start = tensor.data_ptr()
        poke(start - 1 if side == "before" else start + tensor.nbytes, 0xA5)


def named(arguments: dict[str, Any], name: str) -> torch.Tensor:
    """The tensor of a launch that a fault calls ``name``."""
    for holder in (arguments["context"], arguments["plan"]):
        if hasattr(holder, name):
            found: torch.Tensor = getattr(holder, name)
            return found
    if name == "source":
        last: torch.Tensor = arguments["context"].real_kv_sources[-1].tensor
        return last
    column: torch.Tensor = arguments[name]
    return column


def poke(address: int, byte: int) -> None:
    ctypes.c_uint8.from_address(address).value ^= byte


def segfault() -> None:
    ctypes.memset(8, 0, 1)


def bus_error() -> None:
    with tempfile.TemporaryFile() as file:
        file.truncate(mmap.PAGESIZE)
        page = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        file.truncate(0)
        page[0] = 1


def spin() -> None:
    while True:
        pass


def take_all() -> None:
    while True:
        _kept.append(np.empty(64 * 2**20, np.uint8))


def take_all_natively() -> None:
    while (found := _libc.malloc(ctypes.c_size_t(64 * 2**20))) is not None:
        ctypes.memset(found, 1, 1)
    print("terminate called after throwing an instance of 'std::bad_alloc'", file=sys.stderr)
    sys.stderr.flush()
    _libc.abort()


_DEADLY = {
    "segfault": segfault,
    "bus error": bus_error,
    "abort": _libc.abort,
    "spin": spin,
    "sleep": lambda: time.sleep(3600),
    "status": lambda: os._exit(3),
    "exit": lambda: sys.exit(4),
    "take all": take_all,
    "take all natively": take_all_natively,
}
