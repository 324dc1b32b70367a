"""What is kept from run to run: the corpus and the ledger."""

from __future__ import annotations

import dataclasses
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from kv_canary_fuzz.harness.campaign.blocks import BlocksOf, block_trace, no_blocks
from kv_canary_fuzz.harness.campaign.corpus import (
    CorpusError,
    add_to_corpus,
    minimise,
    read_corpus,
    smallest_cover,
)
from kv_canary_fuzz.harness.campaign.coverage import (
    Coverage,
    incidence,
    pack,
    present_features,
    unpack,
)
from kv_canary_fuzz.harness.campaign.settings import Settings
from kv_canary_fuzz.harness.campaign.summary import LedgerNote, Summary
from kv_canary_fuzz.harness.findings.ledger import (
    Ledger,
    LedgerEntry,
    LedgerError,
    read_ledger,
    write_ledger,
)
from kv_canary_fuzz.harness.findings.reproducer import ReproducerError, read_reproducer
from kv_canary_fuzz.harness.findings.standing import ledger_notes, standing_of, update_ledger
from kv_canary_fuzz.harness.targets.builtin import load_target
from kv_canary_fuzz.harness.targets.target import target_of
from kv_canary_fuzz.reference import scalar_model
from kv_canary_fuzz.strategies.case import Case, VerifyStep, WriteStep
from kv_canary_fuzz.strategies.classify import Domain
from kv_canary_fuzz.strategies.prng import case_at

TODAY = date(2026, 1, 2)
CASES = [case_at(3, index, "all") for index in range(200)]


def pairs_of(cases: list[Case]) -> Coverage:
    coverage = Coverage()
    coverage.add(cases)
    return coverage


def test_coverage_counts_features_and_tells_new_pairs() -> None:
    coverage = Coverage()
    counts, new = coverage.add(CASES[:50])
    marks = incidence(CASES[:50])
    assert counts.total() == marks.sum()
    assert new[0] == 0
    again, none = coverage.add(CASES[:50])
    assert (again, none) == (counts, [])
    one_by_one = Coverage()
    assert [k for k, c in enumerate(CASES[:50]) if one_by_one.reach(present_features(c))] == new
    assert np.array_equal(unpack(pack(coverage.pairs)), coverage.pairs)
    assert not unpack(b"").any()


@pytest.fixture(scope="module")
def blocks_of() -> BlocksOf:
    return block_trace()


def test_blocks_are_those_of_a_case_alone(blocks_of: BlocksOf) -> None:
    verify = next(c for c in CASES if {type(step) for step in c.steps} == {VerifyStep})
    both = next(c for c in CASES if {type(step) for step in c.steps} == {VerifyStep, WriteStep})
    alone = blocks_of(verify)
    assert len(alone) > 20
    assert blocks_of(both) - alone
    assert blocks_of(verify) == alone


def test_the_smallest_corpus_keeps_all_pairs_and_blocks(
    tmp_path: Path, blocks_of: BlocksOf
) -> None:
    folder = tmp_path / "corpus"
    added = add_to_corpus(folder, CASES, blocks_of)
    assert 0 < len(added) <= len(CASES)
    assert add_to_corpus(folder, CASES, blocks_of) == []
    before, after = minimise(folder, blocks_of)
    assert (before, after) == (len(added), len(read_corpus(folder)))
    assert after < before
    kept = list(read_corpus(folder).values())
    assert np.array_equal(pairs_of(kept).pairs, pairs_of(CASES).pairs)
    assert frozenset().union(*map(blocks_of, kept)) == frozenset().union(*map(blocks_of, CASES))
    assert minimise(folder, blocks_of) == (after, after)


def test_a_new_block_alone_keeps_a_case(tmp_path: Path) -> None:
    case = CASES[0]
    twin = replace(case, schedule=case.schedule + 1)

    def blocks_of(one: Case) -> frozenset[int]:
        return frozenset({7}) if one == twin else frozenset()

    add_to_corpus(tmp_path, [case], blocks_of)
    assert len(add_to_corpus(tmp_path, [case, twin, twin], blocks_of)) == 1
    assert minimise(tmp_path, blocks_of) == (2, 1)
    assert list(read_corpus(tmp_path).values()) == [twin]


def test_a_cover_takes_the_case_that_makes_others_needless() -> None:
    items = [np.array(reached) for reached in ([1, 2], [2, 3], [5], [1, 2])]
    assert smallest_cover(items, [9, 1, 1, 5]) == [1, 2, 3]
    wide = [np.array(reached) for reached in ([1, 2], [3, 4], [1, 2, 3], [4], [3, 4])]
    assert smallest_cover(wide, [2, 2, 2, 1, 1]) == [2, 3]


def test_a_corpus_that_is_lost_or_damaged_does_not_go_unnoticed(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="is missing"):
        read_corpus(tmp_path / "nowhere")
    with pytest.raises(CorpusError, match="is empty"):
        read_corpus(tmp_path)
    add_to_corpus(tmp_path, CASES[:3], no_blocks)
    next(tmp_path.iterdir()).write_text("{")
    with pytest.raises(ReproducerError):
        read_corpus(tmp_path)


def test_batches_begin_with_the_corpus() -> None:
    settings = Settings(target="scalar", cases=200, replayed=130, batch=128)
    ranges = [settings.batch_range(number) for number in range(5)]
    assert ranges == [
        range(-130, -128),
        range(-128, 0),
        range(128),
        range(128, 200),
        range(256, 200),
    ]
    assert [settings.batch_of(r.start) for r in ranges[:4]] == [0, 1, 2, 3]


ENTRY = LedgerEntry(
    signature="write: slot_run_counter", target="mine", title='says "3"\n', since="2026-01-01"
)


def test_a_ledger_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "ledger.toml"
    ledger = Ledger((ENTRY, replace(ENTRY, signature="verify: raised", state="quarantined")))
    write_ledger(path, ledger)
    assert read_ledger(path) == ledger


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[[findings]]\nsignature = 3\n", "Expected `str`, got `int`"),
        ('[[findings]]\nsignature = "a"\ntarget = "b"\nstat = "x"\n', "unknown field `stat`"),
        ("[[findings]", "Expected"),
        ('[[findings]]\nsignature = "a"\ntarget = "b"\n' * 2, "has 'a' of b twice"),
        (
            '[[findings]]\nsignature = "a"\ntarget = "b"\nreproducer = "gone.json"\n',
            "reproducer gone.json is missing",
        ),
    ],
)
def test_a_bad_ledger_is_one_line(text: str, fault: str, tmp_path: Path) -> None:
    path = tmp_path / "ledger.toml"
    path.write_text(text)
    with pytest.raises(LedgerError) as error:
        read_ledger(path)
    assert fault in str(error.value)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_standings() -> None:
    fixed = replace(ENTRY, state="fixed")
    mine, other = (target_of(name, scalar_model) for name in ("mine", "other"))
    case = Case(num_slots=1)
    assert standing_of(Ledger(), mine, ENTRY.signature, case) == "new"
    assert standing_of(Ledger((ENTRY,)), mine, ENTRY.signature, case) == "known"
    assert standing_of(Ledger((ENTRY,)), other, ENTRY.signature, case) == "new"
    assert standing_of(Ledger((fixed,)), mine, ENTRY.signature, case) == "back"


def test_what_a_target_does_not_claim_is_undefined_behaviour() -> None:
    modest = dataclasses.replace(target_of("mine", scalar_model), domains=frozenset({Domain.VALID}))
    valid, hardened = (case_at(3, 0, domain) for domain in ("valid", "hardened"))
    assert standing_of(Ledger(), modest, ENTRY.signature, valid) == "new"
    assert standing_of(Ledger(), modest, ENTRY.signature, hardened) == "undefined"
    assert standing_of(Ledger((ENTRY,)), modest, ENTRY.signature, hardened) == "known"


def test_a_ledger_follows_a_finding_through_its_life(run_summary: Summary, tmp_path: Path) -> None:
    path = tmp_path / "reports" / "ledger.toml"
    [finding] = run_summary.findings
    assert update_ledger(path, run_summary, TODAY) == [f"new: {finding.signature}"]
    [entry] = read_ledger(path).findings
    assert (entry.state, entry.since, entry.title) == (
        *("tolerated", "2026-01-02"),
        "After step 0 (write), slot 0 holds the wrong prev_hash.",
    )
    assert read_reproducer(path.parent / entry.reproducer) == finding.reproducer

    buggy = load_target(run_summary.target)
    right = replace_name(load_target("emulated"), buggy.name)
    ledger = read_ledger(path)
    outcomes = [
        ledger_notes(path, ledger, target, None, met)[0].outcome
        for target, met in ((buggy, [entry.signature]), (buggy, []), (right, []))
    ]
    assert outcomes == ["met", "still there", "fixed"]

    note = LedgerNote(signature=entry.signature, title="", outcome="fixed")
    clean = replace(run_summary, findings=(), ledger=(note,))
    assert update_ledger(path, clean, TODAY) == [f"fixed: {entry.signature}"]
    back = replace(run_summary, findings=(replace(finding, standing="back"),))
    assert update_ledger(path, back, TODAY) == [f"back: {entry.signature}"]
    assert [e.state for e in read_ledger(path).findings] == ["tolerated"]


def replace_name(target: object, name: str) -> object:
    import dataclasses

    return dataclasses.replace(target, name=name)  # type: ignore[type-var]
