"""A correct target whose worker is killed behind its last batch, the first time that one ends.

The file that says whether that has been is in the environment.
"""

from __future__ import annotations

import os
import signal
from multiprocessing import current_process, parent_process
from multiprocessing.util import Finalize
from pathlib import Path

from kv_canary_fuzz.reference import scalar_model

KILLED = "KV_TEST_KILLED"

launch_canary_write_kernel = scalar_model.launch_canary_write_kernel
launch_canary_verify_kernel = scalar_model.launch_canary_verify_kernel


def end() -> None:
    killed = Path(os.environ[KILLED])
    if not killed.exists():
        killed.write_text(current_process().name)
        os.kill(os.getpid(), signal.SIGKILL)


if parent_process() is not None:
    Finalize(None, end, exitpriority=0)
