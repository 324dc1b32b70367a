"""The report in a real browser: no console errors, nothing cut off, the numbers of run.json."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from kv_canary_fuzz.harness.campaign.summary import Summary

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--hide-scrollbars", "--enable-logging=stderr", "--log-level=0"),
)
WIDTHS = (360, 800, 1600)

MEASURE = """
<script>
const page = document.documentElement;
page.dataset.inner = window.innerWidth;
page.dataset.scroll = page.scrollWidth;
const visible = (kind) => [...document.querySelectorAll("svg." + kind)]
  .filter((picture) => picture.getBoundingClientRect().width > 0).length;
page.dataset.wide = visible("wide");
page.dataset.narrow = visible("narrow");
page.dataset.small = [...document.querySelectorAll("svg text")].filter((text) => {
  const box = text.getBoundingClientRect();
  return box.height > 0 && box.height < 9;
}).length;
</script>
"""

FRAME = """<!DOCTYPE html>
<html lang="en"><title>frame</title><body style="margin: 0">
<iframe id="frame" style="border: 0; width: {width}px; height: 4000px" srcdoc="{page}"></iframe>
<script>
const frame = document.getElementById("frame");
frame.addEventListener("load", () => {{
  const inner = frame.contentDocument;
  Object.assign(document.documentElement.dataset, inner.documentElement.dataset);
  document.body.append(...[...inner.querySelectorAll("data")].map((d) => d.cloneNode(true)));
}});
</script></body></html>
"""
"""Chromium's windows are at least 500 pixels wide, a frame in one may be as narrow as it likes."""

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]


class Values(HTMLParser):
    """The numbers that the page carries, and what the measuring script wrote."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.numbers: dict[str, list[str]] = {}
        self.measured: dict[str, str] = {}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if tag == "html":
            self.measured = {
                name.removeprefix("data-"): value
                for name, value in found.items()
                if name.startswith("data-")
            }
        if tag == "data":
            self.numbers.setdefault(found.get("id") or found["class"], []).append(found["value"])


def browse(page: Path, width: int, folder: Path, *more: str) -> tuple[str, list[str]]:
    """The page's document once it is drawn, and what was said on the console."""
    assert CHROMIUM is not None
    ran = subprocess.run(
        [
            CHROMIUM,
            *FLAGS,
            f"--user-data-dir={folder / f'profile-{width}-{len(more)}-{page.stem}'}",
            f"--window-size={width},900",
            *more,
            "--dump-dom",
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    console = [line for line in ran.stderr.splitlines() if re.search(r":CONSOLE[(:]", line)]
    return ran.stdout, console


def test_what_is_said_on_the_console_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "noisy.html"
    page.write_text("<!DOCTYPE html><title>noisy</title><script>console.error('ouch')</script>")
    _, console = browse(page, 800, tmp_path)
    assert any("ouch" in line for line in console)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_report_is_whole_at_any_width(
    width: int, run_root: Path, run_summary: Summary, tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    text = (run_root / "report.html").read_text()
    measured = text.replace("</body>", f"{MEASURE}</body>")
    page.write_text(FRAME.format(width=width, page=html.escape(measured)))
    dom, console = browse(page, width, tmp_path)
    assert console == []
    seen = Values(dom)
    assert seen.measured["inner"] == str(width)
    assert int(seen.measured["scroll"]) <= width
    shown = "narrow" if width < 900 else "wide"
    hidden = "wide" if shown == "narrow" else "narrow"
    assert int(seen.measured[shown]) > 0
    assert seen.measured[hidden] == "0"
    assert seen.measured["small"] == "0"
    run = run_summary
    assert seen.numbers == {
        "cases": [str(run.cases)],
        "rate": [str(run.rate)],
        "finding-count": [str(len(run.findings))],
        "features": [str(sum(count > 0 for count in run.features.values()))],
        "pairs": [str(run.pairs.total_met)],
        "seconds": [str(run.timing.seconds)],
        "seed": [str(run.settings.seed)],
        "finding-cases": [str(finding.count) for finding in run.findings],
    }


def test_the_report_prints(run_root: Path, tmp_path: Path) -> None:
    paper = tmp_path / "report.pdf"
    browse(run_root / "report.html", 800, tmp_path, f"--print-to-pdf={paper}")
    assert paper.read_bytes().startswith(b"%PDF")
