"""A correct target whose launches end later than they return, as on a device.

The token of a write's first entry asks for a fault, which shows in `synchronize`, or in a launch
some launches later.
"""

from __future__ import annotations

import time
from typing import Any

from kv_canary_fuzz.reference import scalar_model

FAULTS = ("illegal", "misaligned", "endless", "slow", "hurried", "lost")
TOKENS = {name: 2001 + number for number, name in enumerate(FAULTS)}

ERRORS = {
    "illegal": "CUDA error: an illegal memory access was encountered",
    "misaligned": "CUDA error: misaligned address",
    "hurried": "CUDA error: an illegal memory access was encountered",
    "lost": "the device is lost",
}
NOTICED_AFTER = 4
"""Launches behind a faulty one before a launch says so."""

SLOW_SECONDS = 0.03

waiting: list[str] = []
"""The faults of the launches since the last that was waited for."""

sticky: list[str] = []
"""The error that the process does not get over, once for each launch since."""


def launch_canary_write_kernel(**arguments: Any) -> None:
    token = int(arguments["input_ids"][0])
    scalar_model.launch_canary_write_kernel(**arguments)
    put(FAULTS[token - 2001] if token > 2000 else "")


def launch_canary_verify_kernel(**arguments: Any) -> None:
    scalar_model.launch_canary_verify_kernel(**arguments)
    put("")


def put(fault: str) -> None:
    if fault in ERRORS and (fault != "hurried" or waiting):
        sticky.append(ERRORS[fault])
    elif sticky:
        sticky.append(sticky[0])
    if len(sticky) > NOTICED_AFTER:
        raise RuntimeError(sticky[0])
    waiting.append(fault)


def synchronize() -> None:
    if "endless" in waiting:
        while True:
            pass
    until = time.process_time() + SLOW_SECONDS * waiting.count("slow")
    while time.process_time() < until:
        pass
    waiting.clear()
    if sticky:
        raise RuntimeError(sticky[0])
