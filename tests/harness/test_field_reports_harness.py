"""Faults that people met in fuzzing harnesses, by their number in the field reports.

H1, H2: test_ring_rule. H4, H7: test_reporting. H8, H9: test_command_line (a case that kills the
process). H11: test_arena. H12: tests/reproducers. H17: test_plugin.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kv_canary_fuzz.harness.findings.reproducer import Reproducer, read_reproducer
from kv_canary_fuzz.harness.findings.shrinker import shrink
from kv_canary_fuzz.harness.findings.shrunk_file import shrink_to_file
from kv_canary_fuzz.harness.judging.verdict import judge
from kv_canary_fuzz.harness.targets.target import Target
from kv_canary_fuzz.strategies.case import Case, Flip, VerifyStep
from kv_canary_fuzz.strategies.classify import Domain, check_case, classify
from kv_canary_fuzz.strategies.knowledge.expected import expected_bits
from kv_canary_fuzz.strategies.prng import case_at

BuildCase = Callable[..., Case]
BuildTarget = Callable[..., Target]

FLIP = Flip(region="real_kv_sources[0].tensor", offset=64, mask=1)


def test_h3_hashed_verify_launches_mostly_meet_clean_entries() -> None:
    hashed = mostly_clean = 0
    for index in range(1500):
        case = case_at(41, index, "valid")
        if not (case.real_kv_sources and case.real_kv_hash_mode):
            continue
        for step, rows in zip(case.steps, expected_bits(case), strict=True):
            if isinstance(step, VerifyStep) and step.enable and step.verify_num_valid > 1:
                hashed += 1
                mostly_clean += rows is not None and 2 * len(rows) < step.verify_num_valid
    assert hashed > 400
    assert mostly_clean > 0.6 * hashed


def two_bugs(context: Any) -> None:
    context.kernel_run_counter.add_(1)
    if context.violation_write_index[0]:
        context.violation_ring[0, 3] += 1


def test_h5_shrinking_keeps_to_the_bug_it_began_with(
    chain_case: BuildCase, defective: BuildTarget, tmp_path: Path
) -> None:
    target = defective(after_verify=two_bugs)
    case = chain_case(FLIP)
    signature = judge(case, target).signature
    assert signature == "verify: violation_ring.stored_token"
    found = Reproducer(case=case, signature=signature, target="two bugs", reference="torch")
    small = shrink_to_file(found, target, None, tmp_path / "a.kvcase.json", budget_seconds=60)
    assert judge(small.case, target).signature == signature


def test_h6_no_candidate_reads_out_of_its_own_bounds(defective: BuildTarget) -> None:
    target = defective(after_write=lambda context: context.kernel_run_counter.add_(1))
    case = next(c for c in (case_at(3, n, "valid") for n in range(50)) if len(c.steps) > 2)
    signature = judge(case, target).signature
    tried: list[Case] = []

    def still_fails(candidate: Case) -> bool:
        tried.append(candidate)
        return judge(candidate, target).signature == signature

    shrink(case, still_fails, budget_seconds=60, on_better=lambda _: None)
    assert len(tried) > 10
    for candidate in tried:
        check_case(candidate)
        assert classify(candidate) is Domain.VALID


SPAWNED = """
import sys
from kv_canary_fuzz.reference import scalar_model

launch_canary_verify_kernel = scalar_model.launch_canary_verify_kernel


def launch_canary_write_kernel(**arguments):
    if "kv_canary_fuzz.harness.cli" in sys.modules:
        raise RuntimeError("in a fork of the process that was started")
    scalar_model.launch_canary_write_kernel(**arguments)
"""


def test_h14_workers_are_spawned(tmp_path: Path) -> None:
    (tmp_path / "spawned.py").write_text(SPAWNED)
    script = "from kv_canary_fuzz.harness.cli import main; main()"
    words = ("run", "--target", "spawned", "--cases", "200", "--workers", "1", "--out", "run")
    ran = subprocess.run(
        [sys.executable, "-c", script, *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_h15_many_failing_cases_are_one_finding(
    chain_case: BuildCase, defective: BuildTarget
) -> None:
    target = defective(after_write=lambda context: context.slot_run_counter.add_(1))
    cases = [chain_case(), chain_case(FLIP), *(case_at(2, n, "valid") for n in range(40))]
    verdicts = [judge(case, target) for case in cases]
    assert {v.signature for v in verdicts if not v.agrees} == {"write: slot_run_counter"}


def test_h16_a_file_holds_the_case_and_not_how_it_was_drawn(
    chain_case: BuildCase, defective: BuildTarget, tmp_path: Path
) -> None:
    target = defective(after_write=lambda context: context.slot_run_counter.add_(1))
    case = chain_case()
    path = tmp_path / "a.kvcase.json"
    found = Reproducer(
        case=case, signature="write: slot_run_counter", target="defective", reference="torch"
    )
    small = shrink_to_file(found, target, None, path, budget_seconds=60)
    assert read_reproducer(path).case == small.case
    stored = json.loads(path.read_text())
    assert stored["case"]["steps"][0]["step"] == "write"
    assert (stored["seed"], stored["index"]) == (-1, -1)
