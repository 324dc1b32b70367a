"""Coverage of the CUDA source in words."""

from __future__ import annotations

from kv_canary_fuzz.harness.campaign.source_coverage import Reached, SourceCoverage, Unreached


def source_lines(source: SourceCoverage) -> list[str]:
    """A line for all, one for each kernel and file, and one for each place that was not reached."""
    parts = (*source.kernels, *source.files)
    return [
        f"CUDA source: {share_text(source.total)}",
        *(f"  {part.name}: {share_text(part)}" for part in parts),
        *(f"  not reached: {place_text(missed)}" for missed in source.unreached),
    ]


def share_text(part: Reached) -> str:
    """For example ``95 of 100 lines (95.0 %), 40 of 40 branches (100 %)``."""
    return (
        f"{_share(part.lines_reached, part.lines, 'lines')}, "
        f"{_share(part.branches_reached, part.branches, 'branches')}"
    )


def place_text(missed: Unreached) -> str:
    """For example ``chain.cuh:63, branch 2 of 2, in kv_canary_write_plain``."""
    branch = f", branch {missed.branch} of {missed.of}" if missed.branch else ""
    return f"{missed.file}:{missed.line}{branch}, in {missed.kernel}"


def _share(reached: int, total: int, noun: str) -> str:
    percent = "100" if reached == total else f"{100 * reached / total:.1f}"
    return f"{reached:,} of {total:,} {noun} ({percent} %)"
