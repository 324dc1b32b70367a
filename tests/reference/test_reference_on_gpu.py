"""Both models over tensors of a CUDA device."""

from __future__ import annotations

import pytest
import torch

from kv_canary_fuzz.reference.golden import CanaryState

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


def test_golden_vectors(golden_launches, run):
    for golden in golden_launches:
        launch = golden.build("cuda")

        run(launch)

        assert CanaryState.of(launch.context) == golden.after, golden.index
