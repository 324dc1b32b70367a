"""The GPU benchmark for a person, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from ..atomic_file import write_atomically
from ..json_text import Plain, json_text
from ..targets.builtin import load_target
from ..targets.target import Target, TargetError
from .gpu_bench import Bencher, Limits, Line


def report_gpu_bench(
    target: Target, console: Console, *, shuffled: bool, json_file: Path | None
) -> None:
    """Measure a target on the current GPU, beside sglang where that is installed.

    Raises TargetError where the kernels that give the limits cannot be built, BenchError where a
    target does a launch wrongly.
    """
    theirs = _sglang(console)
    bencher = Bencher(target, theirs, shuffled=shuffled)
    device = _device()
    console.print(device, highlight=False)
    limits = bencher.limits()
    for text in _limit_lines(limits):
        console.print(text, highlight=False)
    lines = list(bencher.lines(limits))
    console.print(_table(target.name, lines))
    host = bencher.host_times()
    taken = ", ".join(f"{name} {microseconds:.0f} us" for name, microseconds in host.items())
    console.print(f"on the host, a small write takes {taken}", highlight=False)
    if json_file is not None:
        write_atomically(json_file, json_text(_plain(device, limits, lines, host)).encode())


def _sglang(console: Console) -> Target | None:
    try:
        return load_target("sglang")
    except TargetError as error:
        console.print(f"without sglang: {error}", highlight=False)
        return None


def _device() -> str:
    parts = [torch.cuda.get_device_name(), f"torch {torch.__version__}"]
    for package in ("cupy-cuda13x", "cupy-cuda12x", "sglang"):
        try:
            parts.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return ", ".join(parts)


def _limit_lines(limits: Limits) -> Sequence[str]:
    return (
        f"replaying an empty kernel: {limits.empty_us:.1f} us",
        f"mixing one chain: {limits.chain_us_per_token * 1000:.1f} ns a token",
        f"copying: {limits.copy_bytes_per_us / 1e6:.2f} TB/s, read and written",
    )


def _table(name: str, lines: Sequence[Line]) -> Table:
    table = Table("launch", title="medians of replayed graphs, in microseconds")
    for heading in ("sglang", "limit", name, "at most"):
        table.add_column(heading, justify="right")
    for line in lines:
        table.add_row(*line.cells)
    return table


def _plain(
    device: str, limits: Limits, lines: Sequence[Line], host: dict[str, float]
) -> dict[str, Plain]:
    return {
        "device": device,
        "limits": asdict(limits),
        "lines": [asdict(line) for line in lines],
        "host_us": dict(host),
    }
