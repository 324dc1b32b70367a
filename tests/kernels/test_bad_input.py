"""What the GPU build refuses: tensors elsewhere, sources that do not compile.

Without a GPU a stand-in for CuPy is enough: what is refused never gets to a device.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from kv_canary_fuzz.kernels import emulated, gpu
from kv_canary_fuzz.kernels.errors import CompileError
from kv_canary_fuzz.kernels.source import Patch, read_sources
from kv_canary_fuzz.reference.building import build_context, build_source, build_write_launch

BROKEN = Patch("ring.cuh", "row[1] = violation.slot;", "row[1] = violation.slott;")
LINE = read_sources()["ring.cuh"].split(BROKEN.old)[0].count("\n") + 1
LOG = f'ring.cuh({LINE}): error: class "Violation" has no member "slott"\n'


def a_write(device="cpu"):
    source = build_source(
        bytes(64), rows=4, page_size=1, num_bytes_per_token=16, read_bytes=16, device=device
    )
    context = build_context(
        num_slots=4, real_kv_sources=[source], real_kv_hash_mode=2, device=device
    )
    return build_write_launch(
        context,
        write_offsets=[0, 2],
        write_seed_slot_indices=[-1],
        input_ids=[5, 6],
        positions=[6, 7],
        out_cache_loc=[1, 2],
    )


def with_tensor(launch, name, change):
    """The launch with one tensor changed; ``name`` is a refusal's."""
    context = launch.context
    if name == "input_ids":
        return replace(launch, input_ids=change(launch.input_ids))
    if name.startswith("plan."):
        field = name.removeprefix("plan.")
        plan = replace(launch.plan, **{field: change(getattr(launch.plan, field))})
        return replace(launch, plan=plan)
    if name.startswith("real_kv_sources"):
        [source] = context.real_kv_sources
        sources = (replace(source, tensor=change(source.tensor)),)
        return replace(launch, context=replace(context, real_kv_sources=sources))
    changed = replace(context, **{name: change(getattr(context, name))})
    return replace(launch, context=changed)


def refusal(kernels, launch):
    with pytest.raises(ValueError, match=r"^kv-canary: ") as refused:
        kernels.launch_canary_write_kernel(**launch.arguments())
    return str(refused.value).removeprefix("kv-canary: ")


def unreachable(*_, **__):
    raise AssertionError("a device was asked for")


@pytest.fixture
def kernels(monkeypatch):
    """The GPU build over a CuPy without a device."""
    cupy = SimpleNamespace(cuda=SimpleNamespace(Device=unreachable), RawModule=unreachable)
    monkeypatch.setattr(gpu, "import_cupy", lambda: cupy)
    return gpu.build()


def test_tensors_of_the_cpu(kernels):
    assert refusal(kernels, a_write()) == "canary_buf must be on a CUDA device, got cpu"


def test_tensors_without_memory(kernels):
    launch = a_write("meta")

    assert refusal(kernels, launch) == "canary_buf must have memory, got device meta"


@pytest.mark.parametrize(
    "name",
    [
        *("violation_ring", "slot_run_counter", "enable_chain_position_assert"),
        *("plan.write_offsets", "plan.write_num_valid_reqs"),
        *("input_ids", "real_kv_sources[0].tensor"),
    ],
)
def test_tensors_of_two_devices(kernels, name):
    launch = with_tensor(a_write(), name, lambda tensor: tensor.to("meta"))

    assert refusal(kernels, launch) == f"{name} must be on the device of canary_buf, got meta"


def test_a_source_that_does_not_compile_is_shown_with_its_line(monkeypatch):
    class CompileException(Exception):
        pass

    def raw_module(*, code, options):
        line = code.split("violation.slott;")[0].rsplit('#line 1 "ring.cuh"\n', 1)[1].count("\n")
        assert line + 1 == LINE
        assert "-std=c++17" in options
        raise CompileException(LOG)

    device = nullcontext(SimpleNamespace(attributes={"MultiProcessorCount": 132}))
    cuda = SimpleNamespace(
        Device=lambda _: device, compiler=SimpleNamespace(CompileException=CompileException)
    )
    cupy = SimpleNamespace(cuda=cuda, RawModule=raw_module)
    monkeypatch.setattr(gpu, "import_cupy", lambda: cupy)

    with pytest.raises(CompileError) as refused:
        gpu.build(patches=(BROKEN,)).on_device(torch.device("cuda", 0))

    assert str(refused.value) == f"NVRTC refused the kernel source:\n{LOG}"


@pytest.mark.gpu
def test_nvrtc_shows_the_line_that_it_refuses(gpu_build):
    assert gpu_build is not None
    with pytest.raises(CompileError, match=rf"ring\.cuh\({LINE}\): error: .*slott"):
        gpu.build(patches=(BROKEN,)).on_device(torch.device("cuda", 0))


@pytest.mark.gpu
def test_pinned_memory_is_no_device(gpu_build):
    pinned = with_tensor(a_write(), "canary_buf", torch.Tensor.pin_memory)
    source = with_tensor(
        a_write("cuda"), "real_kv_sources[0].tensor", lambda tensor: tensor.cpu().pin_memory()
    )

    assert refusal(gpu_build, pinned) == "canary_buf must be on a CUDA device, got cpu"
    assert refusal(gpu_build, source) == (
        "real_kv_sources[0].tensor must be on the device of canary_buf, got cpu"
    )


@pytest.mark.gpu
def test_the_emulated_build_takes_no_tensors_of_a_gpu(gpu_build):
    assert gpu_build is not None
    found = refusal(emulated.build(), a_write("cuda"))

    assert found == "canary_buf must be on the CPU, got cuda:0"


@pytest.mark.gpu
def test_tensors_of_two_gpus(gpu_build):
    if torch.cuda.device_count() < 2:
        pytest.skip("this machine has one CUDA device")
    launch = with_tensor(a_write("cuda:0"), "input_ids", lambda tensor: tensor.to("cuda:1"))

    assert refusal(gpu_build, launch) == "input_ids must be on the device of canary_buf, got cuda:1"
