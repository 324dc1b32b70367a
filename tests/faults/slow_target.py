"""A correct target that takes long: to load, to build at its first launch, and where asked to.

By the processor's time or by the clock, as the environment says in seconds. The first token of a
write asks for a heavy launch, or for one that never ends.
"""

from __future__ import annotations

import math
import os
import time
from typing import Any

from kv_canary_fuzz.reference import scalar_model

HEAVY_TOKEN, ENDLESS_TOKEN = 4001, 4002
HEAVY_SECONDS = 0.2

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
    token = int(arguments["input_ids"][0])
    if token == HEAVY_TOKEN:
        spin(HEAVY_SECONDS)
    elif token == ENDLESS_TOKEN:
        spin(math.inf)
    scalar_model.launch_canary_write_kernel(**arguments)


def launch_canary_verify_kernel(**arguments: Any) -> None:
    build()
    scalar_model.launch_canary_verify_kernel(**arguments)
