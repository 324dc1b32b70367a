"""The report as text: self-contained, complete, and drawn for any case."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from kv_canary_fuzz.harness.campaign.summary import Finding, LedgerNote, Summary
from kv_canary_fuzz.harness.explaining.explain import explain
from kv_canary_fuzz.harness.explaining.explanation import Explanation
from kv_canary_fuzz.harness.findings.reproducer import Reproducer, encode_reproducer
from kv_canary_fuzz.harness.judging.verdict import judge
from kv_canary_fuzz.harness.targets.target import Target
from kv_canary_fuzz.reports.page import report_html
from kv_canary_fuzz.strategies.case import Case
from kv_canary_fuzz.strategies.hypothesis_driver import cases

VOID = {"meta", "link", "br", "img", "input", "hr"}
SELF_CLOSED = {"rect", "line", "polyline", "path"}


class Outline(HTMLParser):
    """Elements, in order; fails on tags that do not close."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.parts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.parts.append(data)

    @property
    def text(self) -> str:
        return "".join(self.parts)


def parse(page: str) -> Outline:
    outline = Outline()
    outline.feed(page)
    outline.close()
    assert outline.open == []
    return outline


def test_the_page_needs_nothing_else(run_root: Path) -> None:
    page = (run_root / "report.html").read_text()
    outline = parse(page)
    tags = {tag for tag, _ in outline.seen}
    assert not tags & {"script", "img", "iframe", "object"}
    addresses = [a.get("src") or a.get("href") or "" for _, a in outline.seen]
    assert all(address.startswith(("#", "data:")) for address in addresses if address)
    assert not re.search(r"https?://|url\(|@import", page)


def test_the_page_can_be_read_aloud(run_root: Path) -> None:
    outline = parse((run_root / "report.html").read_text())
    levels = [int(tag[1]) for tag, _ in outline.seen if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))
    names = [tag for tag, _ in outline.seen]
    assert names.count("caption") == names.count("table") > 0
    pictures = [attrs for tag, attrs in outline.seen if tag == "svg"]
    assert all(
        p.get("aria-hidden") or p.get("aria-label") or p.get("aria-labelledby") for p in pictures
    )
    identities = [a["id"] for _, a in outline.seen if a.get("id")]
    assert len(identities) == len(set(identities))
    cells = [attrs for tag, attrs in outline.seen if tag == "th"]
    assert all(attrs.get("scope") in {"row", "col"} for attrs in cells)


def test_the_page_answers_which_field_and_how_to_replay(
    run_root: Path, run_summary: Summary
) -> None:
    [finding] = run_summary.findings
    assert finding.reproducer is not None
    text = parse((run_root / "report.html").read_text()).text
    assert "After step 0 (write), slot 0 holds the wrong prev_hash." in text
    assert f"kv-canary-fuzz replay {finding.file}" in text
    assert encode_reproducer(finding.reproducer).decode() in text
    assert finding.script in text
    assert "slot 0, prev_hash, byte 16: expected 16, found 8f" in text
    assert "The first broken link is at entry 1" in text


def wreck(**arguments: object) -> None:
    """Fills everything that a launch may change, and some of what it may not, with one byte."""
    context = arguments["context"]
    for name in ("canary_buf", "violation_ring", "slot_run_counter", "violation_write_index"):
        getattr(context, name).fill_(0x5A)
    for source in context.real_kv_sources:  # type: ignore[attr-defined]
        source.tensor.fill_(0x5A)


WRECKED = Target(name="wrecked", device="cpu", write=wreck, verify=wreck)


@pytest.fixture(scope="module")
def drawn() -> list[tuple[Case, Explanation]]:
    """Explanations of many cases that differ in every way."""
    collected: list[tuple[Case, Explanation]] = []

    @settings(max_examples=40, deadline=None, database=None, derandomize=True)
    @given(case=cases("all"))
    def collect(case: Case) -> None:
        verdict = judge(case, WRECKED)
        if not verdict.agrees:
            collected.append((case, explain(case, verdict)))

    collect()
    return collected


def test_any_mismatch_can_be_drawn(
    run_summary: Summary, drawn: list[tuple[Case, Explanation]]
) -> None:
    findings = tuple(
        Finding(
            signature=f"wrecked <{number}> & co",
            count=1,
            first_index=number,
            file=f"{number}.kvcase.json",
            reproducer=Reproducer(signature="", target="wrecked", reference="torch", case=case),
            explanation=why,
        )
        for number, (case, why) in enumerate(drawn)
    )
    assert len(findings) > 20
    outline = parse(report_html(replace(run_summary, findings=findings)))
    assert "wrecked <3> & co" in outline.text


def test_a_clean_run_and_a_known_finding_say_so(run_summary: Summary) -> None:
    clean = replace(run_summary, findings=())
    assert "no findings" in parse(report_html(clean)).text
    known = tuple(replace(f, standing="known", title="is known") for f in run_summary.findings)
    note = LedgerNote(signature="write: gone", title="was here", outcome="fixed")
    text = parse(report_html(replace(run_summary, findings=known, ledger=(note,)))).text
    assert "nothing new; 1 known finding" in text
    assert "Ledger: is known" in text
    assert "was here" in text


def test_a_run_without_cases_can_be_drawn(run_summary: Summary) -> None:
    empty = replace(
        run_summary, cases=0, findings=(), timing=replace(run_summary.timing, workers=())
    )
    assert "no case ran" in parse(report_html(empty)).text
