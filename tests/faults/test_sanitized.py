"""The sanitized build: clean on the clean kernels, and what it says about a fault."""

from __future__ import annotations

import pytest

from kv_canary_fuzz.harness.execution.fuzzer import Fuzzer
from kv_canary_fuzz.harness.isolation.loading import load_isolated
from kv_canary_fuzz.harness.isolation.report import read_report
from kv_canary_fuzz.harness.judging.verdict import judge
from kv_canary_fuzz.harness.targets.builtin import load_target, sanitized_name
from kv_canary_fuzz.harness.targets.target import TargetError
from kv_canary_fuzz.strategies.prng import case_at

ADDRESS_REPORT = """\
=================================================================
==7==ERROR: AddressSanitizer: use-after-poison on address 0x7fb8d0e004c0 at pc 0x7fb8 bp 0x7 sp 0x7
READ of size 8 at 0x7fb8d0e004c0 thread T0
    #0 0x7fb8d24914cf in unsigned long __ldg<unsigned long>(unsigned long const*) /x/cuda_words.h:41
    #1 0x7fb8d24914cf in fold_token(unsigned char const*) /x/fold.cuh:31
    #2 0x7fb8d24914cf in kv_canary_write_plain /x/kv_canary.cu:93
"""
UNDEFINED_REPORT = """\
chain.cuh:45:18: runtime error: signed integer overflow: 2147483647 + 1 cannot be represented
    #0 0x7f in check_position /x/chain.cuh:45
"""


@pytest.mark.parametrize(
    ("text", "kind", "place"),
    [
        (ADDRESS_REPORT, "use-after-poison", "fold.cuh:31"),
        (UNDEFINED_REPORT, "signed integer overflow", "chain.cuh:45"),
        (
            "hash.cuh:9:3: runtime error: shift exponent 64 is too large for 64-bit type 'int'",
            "shift exponent",
            "hash.cuh:9",
        ),
        (
            "fold.cuh:8:3: runtime error: load of misaligned address 0x7f9ab for type 'const "
            "struct ulonglong2', which requires 16 byte alignment",
            "misaligned address",
            "fold.cuh:8",
        ),
        ("terminate called after throwing 'std::bad_alloc'", "out of memory", ""),
        ("Fatal: something else", "", ""),
    ],
)
def test_reports_are_read(text: str, kind: str, place: str) -> None:
    report = read_report(text)
    assert (report.kind, report.place) == (kind, place)
    assert report.lines


def test_the_clean_kernels_are_clean() -> None:
    target = load_isolated("sanitized")
    fuzzer = Fuzzer(target)
    for first in range(0, 384, 128):
        cases = fuzzer.generate(11, range(first, first + 128), "all")
        assert fuzzer.failing(cases) == []
        assert all(judge(case, target).agrees for case in cases[:8])


def test_a_stray_write_is_reported_with_its_line() -> None:
    target = load_isolated("sanitized:row_past_ring")
    fuzzer = Fuzzer(target)
    cases = [case_at(3, index, "all") for index in range(24)]
    failing = fuzzer.failing(cases)
    full_ring = next(at for at in failing if cases[at].ring_capacity)
    verdict = judge(cases[full_ring], target)
    assert verdict.signature.startswith("crash: use-after-poison in ")
    assert " at ring.cuh:" in verdict.signature
    assert "WRITE of size 8" in verdict.mismatches[0].found


def test_a_sanitized_build_is_not_loaded_where_it_cannot_run() -> None:
    target = load_target("sanitized")
    with pytest.raises(TargetError, match="a process of its own"):
        target.write()


@pytest.mark.parametrize(
    ("name", "sanitized"),
    [
        ("auto", "sanitized"),
        ("emulated", "sanitized"),
        ("sanitized", "sanitized"),
        ("planted:mix_order", "sanitized:mix_order"),
        ("sanitized:mix_order", "sanitized:mix_order"),
    ],
)
def test_the_name_of_the_sanitized_build(name: str, sanitized: str) -> None:
    assert sanitized_name(name) == sanitized


def test_other_targets_cannot_be_sanitized() -> None:
    with pytest.raises(TargetError, match="only the emulated build can"):
        sanitized_name("scalar")
