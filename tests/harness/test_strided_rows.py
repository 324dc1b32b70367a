"""Sources whose rows lie apart: generated where the contract allows it, and watched between."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from msgspec.structs import replace

from kv_canary_fuzz.harness.campaign.campaign import settled
from kv_canary_fuzz.harness.campaign.settings import Settings
from kv_canary_fuzz.harness.execution.arena import allocate, fill, lay_out_batch
from kv_canary_fuzz.harness.execution.binding import Binder
from kv_canary_fuzz.harness.execution.fuzzer import Fuzzer, count_features
from kv_canary_fuzz.harness.execution.tensors import Memory
from kv_canary_fuzz.harness.findings.reproducer import Reproducer
from kv_canary_fuzz.harness.findings.script import script_text
from kv_canary_fuzz.harness.findings.shrinker import shrink
from kv_canary_fuzz.harness.judging.verdict import judge
from kv_canary_fuzz.harness.targets.builtin import load_reference, load_target
from kv_canary_fuzz.harness.targets.target import Target, TargetError
from kv_canary_fuzz.reference import DOCUMENTED, RELEASED
from kv_canary_fuzz.reference.scalar_model import scalar_model
from kv_canary_fuzz.strategies.case import Case, Flip
from kv_canary_fuzz.strategies.classify import MalformedCase, check_case
from kv_canary_fuzz.strategies.prng import case_at

GAP = 48


def apart(case: Case, gap: int = GAP) -> Case:
    return replace(
        case, real_kv_sources=tuple(replace(s, row_gap=gap) for s in case.real_kv_sources)
    )


def defect(after: Callable[[Any], None]) -> Target:
    """The scalar model of the later revision, with something done after a write launch."""
    model = scalar_model(RELEASED)

    def write(**arguments: Any) -> None:
        model.launch_canary_write_kernel(**arguments)
        after(arguments["context"])

    return Target(
        name="defect",
        device="cpu",
        write=write,
        verify=model.launch_canary_verify_kernel,
        contract=RELEASED,
    )


def test_a_case_under_the_later_revision_differs_in_its_gaps_alone() -> None:
    spread = 0
    for index in range(200):
        plain, strided = case_at(8, index, "all"), case_at(8, index, "all", RELEASED)
        check_case(strided)
        spread += plain != strided
        assert apart(strided, 0) == plain
    assert 10 < spread < 100


@pytest.mark.parametrize("name", ["emulated", "scalar", "emulated@2026-08-28"])
def test_a_campaign_agrees_under_either_revision(name: str) -> None:
    torch.set_num_threads(1)
    fuzzer = Fuzzer(load_target(name))
    cases = fuzzer.generate(6, range(300), "all")
    met = count_features(cases)
    assert bool(met["rows:apart"]) == bool(met["rows:whole_rows_between"]) == ("@" not in name)
    assert fuzzer.failing(cases) == []


def test_rows_are_placed_apart_with_guard_bytes_between(chain_case) -> None:
    case = apart(chain_case(Flip(region="real_kv_sources[0].tensor", offset=33, mask=4)))
    packed, strided = lay_out_batch([chain_case()]), lay_out_batch([case])
    arenas = []
    for batch in (packed, strided):
        buffer = allocate(batch.size)
        fill(batch, buffer)
        arenas.append(buffer)
    start, size = strided.layouts[0].regions["real_kv_sources[0].tensor"]
    assert size == 4 * 32 + 3 * GAP
    first = packed.layouts[0].regions["real_kv_sources[0].tensor"].offset
    for row in range(4):
        at = start + row * (32 + GAP)
        assert np.array_equal(
            arenas[1][at : at + 32], arenas[0][first + 32 * row : first + 32 * row + 32]
        )
    before = arenas[1].copy()
    binder = Binder(case, strided.layouts[0], Memory(arenas[1], "cpu"), 0)
    source = binder.launch(0).context.real_kv_sources[0]
    assert (source.tensor.stride(), tuple(source.tensor.shape)) == ((32 + GAP, 1), (4, 32))
    binder.corrupt(case.steps[1])
    assert np.flatnonzero(arenas[1] != before).tolist() == [start + 32 + GAP + 1]


def test_a_write_between_rows_is_found_and_named(chain_case) -> None:
    def spill(context: Any) -> None:
        tensor = context.real_kv_sources[0].tensor
        torch.as_strided(tensor, (1,), (1,), tensor.storage_offset() + 40)[0] ^= 255

    target = defect(spill)
    case = apart(chain_case())
    assert Fuzzer(target).failing([case]) == [0]
    verdict = judge(case, target)
    assert verdict.signature == "write: bytes between the rows of real_kv_sources[0].tensor"


def width_as_step() -> Target:
    """Reads row r at r times the row's width: wrong where rows lie apart."""
    model = scalar_model(RELEASED)

    def close(launcher: Callable[..., None]) -> Callable[..., None]:
        def launch(**arguments: Any) -> None:
            context = arguments["context"]
            sources = tuple(
                _replaced(
                    s, torch.as_strided(s.tensor, tuple(s.tensor.shape), (s.tensor.size(1), 1))
                )
                for s in context.real_kv_sources
            )
            launcher(**arguments | {"context": _replaced_sources(context, sources)})

        return launch

    return Target(
        name="width_as_step",
        device="cpu",
        write=close(model.launch_canary_write_kernel),
        verify=close(model.launch_canary_verify_kernel),
        contract=RELEASED,
    )


def _replaced(source: Any, tensor: torch.Tensor) -> Any:
    return type(source)(**{**vars(source), "tensor": tensor})


def _replaced_sources(context: Any, sources: tuple[Any, ...]) -> Any:
    return type(context)(**{**vars(context), "real_kv_sources": sources})


def test_the_row_width_in_place_of_the_step_is_found_and_shrunk() -> None:
    target = width_as_step()
    fuzzer = Fuzzer(target)
    cases = fuzzer.generate(3, range(200), "valid")
    failing = fuzzer.failing(cases)
    assert failing
    case = cases[failing[0]]
    signature = judge(case, target).signature
    small = shrink(case, lambda c: judge(c, target).signature == signature, budget_seconds=60).case
    assert [(s.rows, s.row_bytes, s.row_gap) for s in small.real_kv_sources] == [(2, 16, 16)]
    assert judge(apart(small, 0), target).agrees


def test_a_case_that_does_not_need_its_gaps_loses_them(chain_case) -> None:
    target = defect(lambda context: context.slot_run_counter.add_(1))
    small = shrink(
        apart(chain_case()),
        lambda c: bool(c.real_kv_sources) and not judge(c, target).agrees,
        budget_seconds=60,
    ).case
    assert [source.row_gap for source in small.real_kv_sources] == [0]


def test_a_target_of_the_earlier_revision_refuses_the_case_and_so_does_its_reference(
    chain_case,
) -> None:
    case = apart(chain_case())
    for name in ("emulated@2026-08-28", "torch@2026-08-28"):
        verdict = judge(case, load_target(name))
        assert verdict.agrees, verdict.signature
    assert judge(case, load_target("emulated")).agrees


def test_settled_follows_the_earlier_of_two_revisions() -> None:
    assert settled(Settings(target="scalar")).revision is RELEASED
    assert settled(Settings(target="scalar@2026-08-28")).revision is DOCUMENTED
    mixed = Settings(target="scalar", reference="scalar@2026-08-28")
    assert settled(mixed).revision is DOCUMENTED
    reference = load_reference("scalar", DOCUMENTED)
    assert reference is not None
    assert (reference.name, reference.contract) == ("scalar", DOCUMENTED)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("scalar@1", "no revision '1' of the contract; there are: 2026-08-28, 0.5.23"),
        (
            "mine@0.5.23",
            "target 'mine' follows one revision; emulated, cuda, torch, scalar follow any",
        ),
    ],
)
def test_revisions_that_cannot_be_had(name: str, message: str) -> None:
    with pytest.raises(TargetError) as error:
        load_target(name)
    assert str(error.value) == message


def test_the_gap_is_a_multiple_of_16(chain_case) -> None:
    with pytest.raises(MalformedCase, match=r"real_kv_sources\[0\]\.row_gap: 8 is not 16 times"):
        check_case(apart(chain_case(), 8))


def test_the_script_of_a_strided_case_makes_a_view(chain_case, tmp_path: Path) -> None:
    """A stale real-KV hash after a flip, on kernels that are right: the script must show rows."""
    torch.set_num_threads(1)
    case = apart(chain_case(Flip(region="real_kv_sources[0].tensor", offset=33, mask=4)))
    target = load_target("planted:predecessor_zero_is_real")
    found = Reproducer(case=case, signature="none", target=target.name, reference="torch")
    path = tmp_path / "reproduce.py"
    wrong = defect(lambda context: context.canary_buf[1, 0].add_(1))
    path.write_text(script_text(found, target, None, judge(case, wrong)))
    assert "torch.nn.functional.pad(" in path.read_text()
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(path))
    assert int(ended.value.code or 0) == 0
