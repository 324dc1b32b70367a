"""A correct target that takes long to load, and to build at its first launch.

By the processor's time or by the clock, as the environment says in seconds.
"""

from __future__ import annotations

import os
import time
from typing import Any

from kv_canary_fuzz.reference import scalar_model

LOAD_BUSY, LOAD_IDLE, BUILD_BUSY = "KV_TEST_LOAD_BUSY", "KV_TEST_LOAD_IDLE", "KV_TEST_BUILD_BUSY"


def spin(seconds: float) -> None:
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


spin(float(os.environ.get(LOAD_BUSY, "0")))
time.sleep(float(os.environ.get(LOAD_IDLE, "0")))
built: list[str] = []


def build() -> None:
    if not built:
        built.append("built")
        spin(float(os.environ.get(BUILD_BUSY, "0")))


def launch_canary_write_kernel(**arguments: Any) -> None:
    build()
    scalar_model.launch_canary_write_kernel(**arguments)


def launch_canary_verify_kernel(**arguments: Any) -> None:
    build()
    scalar_model.launch_canary_verify_kernel(**arguments)
