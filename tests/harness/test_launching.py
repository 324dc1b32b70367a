"""Side streams and captured graphs, on a pretended device: the emulated kernels, put off.

The pretended device keeps what is put on a stream or into a graph, and does it later, as a device
would; what a launcher does outside of that happens at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace as changed
from pathlib import Path
from typing import Any

import pytest
import torch
from msgspec.structs import replace

from kv_canary_fuzz.harness.campaign.settings import Settings
from kv_canary_fuzz.harness.execution.arena import allocate, fill, lay_out_batch
from kv_canary_fuzz.harness.execution.fuzzer import Fuzzer
from kv_canary_fuzz.harness.execution.layout import lay_out
from kv_canary_fuzz.harness.execution.replays import replays_differ
from kv_canary_fuzz.harness.execution.tensors import Memory, Part
from kv_canary_fuzz.harness.findings.provenance import describe
from kv_canary_fuzz.harness.findings.reproducer import read_reproducer
from kv_canary_fuzz.harness.findings.script import script_text
from kv_canary_fuzz.harness.findings.shrunk_file import shrink_to_file
from kv_canary_fuzz.harness.judging.verdict import judge, lines_of
from kv_canary_fuzz.harness.targets.builtin import load_target
from kv_canary_fuzz.harness.targets.target import Target, TargetError
from kv_canary_fuzz.strategies.case import LAUNCHINGS, Case, Launching, WriteStep
from kv_canary_fuzz.strategies.prng import case_at

Action = Callable[[], Any]
Launcher = Callable[..., None]
CASES = 160


class PretendedDevice:
    """`Streams` that keep what is put to them; ``captures`` False refuses graphs."""

    def __init__(self, *, captures: bool = True) -> None:
        self.captures = captures
        self.kept: list[Action] | None = None
        self.graphs = 0
        self.capturing = False

    def put(self, action: Action) -> None:
        if self.kept is None:
            action()
        else:
            self.kept.append(action)

    @contextmanager
    def aside(self) -> Iterator[None]:
        self.kept = []
        yield
        late, self.kept = self.kept, None
        for action in late:
            action()

    def captured(self, work: Action) -> Action:
        self.graphs += 1
        self.kept = graph = []
        self.capturing = True
        try:
            work()
        finally:
            self.kept, self.capturing = None, False
        return lambda: [action() for action in graph]


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> PretendedDevice:
    """A device whose memory and launches are put to it."""
    pretended = PretendedDevice()

    def put_off(owner: type, name: str) -> None:
        method = getattr(owner, name)
        monkeypatch.setattr(
            owner, name, lambda *arguments: pretended.put(lambda: method(*arguments))
        )

    put_off(Memory, "flip")
    put_off(Memory, "swap")
    put_off(Part, "put")
    return pretended


def on(device: PretendedDevice, around: Callable[[Launcher], Launcher] | None = None) -> Target:
    """The emulated kernels on the pretended device; ``around`` makes other launchers of them."""
    kernels = load_target("emulated")

    def launcher(own: Launcher) -> Launcher:
        def launch(**arguments: Any) -> None:
            _refuse(arguments)
            device.put(lambda: own(**arguments))

        return around(own) if around else launch

    return changed(
        kernels, write=launcher(kernels.write), verify=launcher(kernels.verify), streams=device
    )


def _refuse(arguments: dict[str, Any]) -> None:
    """A launch is refused when it is put, not when it runs."""
    from kv_canary_fuzz.reference import VerifyLaunch, WriteLaunch, check_verify, check_write

    if "input_ids" in arguments:
        check_write(WriteLaunch(**arguments))
    else:
        check_verify(VerifyLaunch(**arguments))


def cases_with(launching: Launching, domain: str = "all") -> list[Case]:
    return [replace(case_at(5, index, domain), launching=launching) for index in range(CASES)]


def writing(cases: list[Case]) -> Case:
    return next(filter(begins_with_a_write, cases))


def begins_with_a_write(case: Case) -> bool:
    return isinstance(case.steps[0], WriteStep)


@pytest.mark.parametrize("launching", LAUNCHINGS)
def test_correct_kernels_agree_however_they_are_launched(
    device: PretendedDevice, launching: Launching
) -> None:
    target = on(device)
    cases = cases_with(launching)
    assert Fuzzer(target).failing(cases) == []
    assert device.graphs == (CASES if launching == "graph" else 0)
    for case in cases[:20]:
        assert judge(case, target).agrees


def test_a_target_that_cannot_be_captured_is_launched_eagerly(device: PretendedDevice) -> None:
    device.captures = False
    assert Fuzzer(on(device)).failing(cases_with("graph")) == []
    assert device.graphs == 0


def test_contents_read_at_capture_are_found(device: PretendedDevice, tmp_path: Path) -> None:
    def hasty(own: Launcher) -> Launcher:
        def launch(**arguments: Any) -> None:
            _refuse(arguments)
            if device.capturing:
                arguments["plan"] = _copied(arguments["plan"])
            device.put(lambda: own(**arguments))

        return launch

    target = on(device, hasty)
    assert Fuzzer(target).failing(cases_with("eager")) == []
    small = shrunk(target, "graph", tmp_path)
    assert small.launching == "graph"
    assert (small.shift, len(small.steps)) == (0, 1)


def test_launches_on_another_stream_are_found(device: PretendedDevice, tmp_path: Path) -> None:
    target = on(device, lambda own: own)
    assert Fuzzer(target).failing(cases_with("eager")) == []
    assert shrunk(target, "side_stream", tmp_path).launching == "side_stream"
    assert len(Fuzzer(target).failing(cases_with("graph", "valid"))) == CASES


def test_what_shows_eagerly_is_shrunk_to_eager(device: PretendedDevice, tmp_path: Path) -> None:
    def silent(own: Launcher) -> Launcher:
        del own
        return lambda **arguments: _refuse(arguments)

    assert shrunk(on(device, silent), "graph", tmp_path).launching == "eager"


def test_a_graph_that_runs_well_only_once_is_found(device: PretendedDevice) -> None:
    def spent(own: Launcher) -> Launcher:
        def launch(**arguments: Any) -> None:
            _refuse(arguments)
            ran: list[int] = []

            def run() -> None:
                if not ran:
                    own(**arguments)
                ran.append(1)

            device.put(run)

        return launch

    target = on(device, spent)
    case = writing(cases_with("graph", "valid"))
    assert judge(replace(case, launching="eager"), target).agrees
    verdict = judge(case, target)
    assert verdict.signature == "write: raised ReplaysDiffer, not nothing"
    assert "two replays of one graph left different bytes in " in lines_of(verdict)[0]


def test_what_cannot_be_captured_is_found(device: PretendedDevice) -> None:
    def waiting(own: Launcher) -> Launcher:
        def launch(**arguments: Any) -> None:
            _refuse(arguments)
            own(**arguments)

        return launch

    def captured(_: Action) -> Action:
        raise RuntimeError("operation not permitted when stream is capturing")

    target = on(device, waiting)
    device.captured = captured  # type: ignore[method-assign]
    verdict = judge(writing(cases_with("graph", "valid")), target)
    assert verdict.signature == "write: raised NotCaptured, not nothing"
    assert lines_of(verdict)[0].endswith(
        "found NotCaptured: RuntimeError: operation not permitted when stream is capturing"
    )


def test_a_base_that_a_kernel_cannot_take_is_found_and_shrunk(tmp_path: Path) -> None:
    kernels = load_target("emulated")

    def write(**arguments: Any) -> None:
        kernels.write(**arguments)
        if arguments["context"].canary_buf.data_ptr() % 16:
            arguments["context"].slot_run_counter.add_(1)

    target = changed(kernels, write=write)
    cases = [replace(case, shift=0) for case in cases_with("eager", "valid")]
    assert Fuzzer(target).failing(cases) == []
    case = replace(writing(cases), shift=60)
    verdict = judge(case, target)
    small = _shrink(case, verdict.signature, target, tmp_path)
    assert (verdict.signature, small.shift) == ("write: slot_run_counter", 8)


def test_rows_in_another_order_are_no_difference_between_replays() -> None:
    case = Case(num_slots=1, ring_capacity=4, violation_write_index=1)
    layout = lay_out(case)
    batch = lay_out_batch([case])
    buffers = [allocate(batch.size) for _ in range(2)]
    for buffer, rows in zip(buffers, ((7, 8, 9), (7, 9, 8)), strict=True):
        fill(batch, buffer)
        memory = Memory(buffer, "cpu")
        ring = layout.regions["violation_ring"].offset // 8
        for place, value in enumerate(rows):
            memory.words[ring + place * 8] = value
        memory.ints[layout.regions["violation_write_index"].offset // 4] = 3
    assert replays_differ(case, layout, *buffers) == ""
    assert replays_differ(replace(case, violation_write_index=2), layout, *buffers) == (
        "violation_ring"
    )
    buffers[1][0] ^= 1
    assert replays_differ(case, layout, *buffers) == "a guard band"


def shrunk(target: Target, launching: Launching, folder: Path) -> Case:
    """The shrunk case of the first that differs, read back from its file."""
    cases = cases_with(launching, "valid")
    first = cases[Fuzzer(target).failing(cases)[0]]
    verdict = judge(first, target)
    small = _shrink(first, verdict.signature, target, folder)
    assert judge(small, target).signature == verdict.signature
    return small


def _shrink(case: Case, signature: str, target: Target, folder: Path) -> Case:
    original = describe(Settings(target="emulated"), case, 0, signature, ())
    path = folder / "shrunk.kvcase.json"
    small = shrink_to_file(original, target, None, path, 10.0)
    assert read_reproducer(path).case == small.case
    plain = small.case.launching == "eager" and not small.case.shift
    assert bool(script_text(small, target, None, judge(small.case, target))) is plain
    return small.case


def _copied(plan: Any) -> Any:
    return changed(plan, **{name: value.clone() for name, value in vars(plan).items()})


@pytest.mark.gpu
@pytest.mark.parametrize("launching", LAUNCHINGS)
def test_the_gpu_build_agrees_however_it_is_launched(launching: Launching) -> None:
    target = gpu_target()
    cases = cases_with(launching)
    assert Fuzzer(target).failing(cases) == []
    for case in cases[:20]:
        assert judge(case, target).agrees


@pytest.mark.gpu
@pytest.mark.parametrize("launching", ["side_stream", "graph"])
def test_launches_on_another_stream_of_a_gpu_are_found(launching: Launching) -> None:
    target = gpu_target()
    other = torch.cuda.Stream()

    def write(**arguments: Any) -> None:
        with torch.cuda.stream(other):
            target.write(**arguments)

    cases = [case for case in cases_with(launching, "valid") if begins_with_a_write(case)][:16]
    assert Fuzzer(changed(target, write=write)).failing(cases)


@pytest.mark.gpu
def test_a_wait_for_a_gpu_cannot_be_captured() -> None:
    target = gpu_target()

    def write(**arguments: Any) -> None:
        target.write(**arguments)
        torch.cuda.current_stream().synchronize()

    case = writing(cases_with("graph", "valid"))
    assert judge(replace(case, launching="eager"), changed(target, write=write)).agrees
    verdict = judge(case, changed(target, write=write))
    assert verdict.signature == "write: raised NotCaptured, not nothing"
    assert Fuzzer(target).failing(cases_with("graph")[:40]) == []


def gpu_target() -> Target:
    try:
        return load_target("cuda")
    except TargetError as error:
        pytest.skip(str(error))
