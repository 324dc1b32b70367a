"""The GPU benchmark's table: what a launch is called, what bounds it, and one real measurement."""

from __future__ import annotations

import pytest

from kv_canary_fuzz.harness.bench.gpu_bench import Bencher, Limits, Line
from kv_canary_fuzz.harness.bench.gpu_launches import SHAPES
from kv_canary_fuzz.harness.targets.builtin import load_target

H200 = Limits(empty_us=3.0, chain_us_per_token=0.075, copy_bytes_per_us=4.0e6)


def test_launches_have_the_names_of_the_table():
    assert [str(shape) for shape in SHAPES[3:7]] == [
        "write, 8 x 4,096, no sources",
        "write, 64 x 512, 4 x 128 B, ALL",
        "write, 256 x 1, 4 x 128 B, ALL",
        "write, 1,048,576 x 1, 4 x 128 B, ALL",
    ]
    assert str(SHAPES[10]) == "verify, 1,048,576, 2 x 2048 B, PARTIAL"


def test_highest_limit_counts():
    million = 1 << 20

    assert H200.of(SHAPES[0]) == (3.0 + 0.075 * 4096, "chain")
    assert H200.of(SHAPES[5]) == (3.0 + 0.075, "chain")
    assert H200.of(SHAPES[6]) == (million * (4 * 128 + 56 + 16) / 4.0e6, "bytes")
    assert H200.of(SHAPES[10]) == ((million * (2 * 64 + 64) + 1024 * 16) / 4.0e6, "bytes")


def test_missed_line_says_so():
    line = Line("write", None, 3.0, "chain", 370.06, 370)

    assert line.cells == ("write", "-", "3.0 (chain)", "370.1", "370, missed")
    assert Line("write", 1234.5, 3.0, "chain", 370.0, 370).cells[1:] == (
        "1,234.5",
        "3.0 (chain)",
        "370.0",
        "370",
    )


@pytest.mark.gpu
def test_one_launch_is_measured():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch sees no CUDA device")
    bencher = Bencher(load_target("cuda"), None)

    (line,) = bencher.lines(H200, SHAPES[5:6])

    assert line.launch == "write, 256 x 1, 4 x 128 B, ALL"
    assert line.ours_us > 0
