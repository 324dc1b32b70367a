"""What only a device has: streams, captured graphs, other devices, bases at every alignment."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from kv_canary_fuzz.reference import scalar_model
from kv_canary_fuzz.reference.building import (
    build_context,
    build_source,
    build_verify_launch,
    build_write_launch,
)

pytestmark = pytest.mark.gpu

ENTRIES = 200
ALL = 2


def pattern(size):
    return bytes(7 * place % 251 for place in range(size))


def write_launch(device, *, first_token=10, slot_stride_bytes=32):
    """Three requests of unlike lengths over two sources."""
    sources = [
        build_source(
            pattern((ENTRIES + 1) * width),
            rows=ENTRIES + 1,
            page_size=1,
            num_bytes_per_token=width,
            device=device,
        )
        for width in (32, 272)
    ]
    context = build_context(
        num_slots=ENTRIES + 1,
        slot_stride_bytes=slot_stride_bytes,
        violation_ring=[[0] * 8] * 4,
        real_kv_sources=sources,
        real_kv_hash_mode=ALL,
        device=device,
    )
    return build_write_launch(
        context,
        write_offsets=[0, 1, 40, ENTRIES],
        write_seed_slot_indices=[-1, -1, -1],
        input_ids=[first_token + k for k in range(ENTRIES)],
        positions=list(range(ENTRIES)),
        out_cache_loc=list(range(1, ENTRIES + 1)),
    )


def verify_launch(context):
    """Checks what `write_launch` stamps; all is well but the first entry's position."""
    starts = {0, 1, 40}
    return build_verify_launch(
        context,
        verify_slot_indices=list(range(1, ENTRIES + 1)),
        verify_expected_positions=[5, *range(1, ENTRIES)],
        verify_prev_slot_indices=[-1 if k in starts else k for k in range(ENTRIES)],
    )


def expected_after(**changes):
    launch = write_launch("cpu", **changes)
    scalar_model.launch_canary_write_kernel(**launch.arguments())
    return launch.context.canary_buf


def test_launch_goes_to_the_current_stream(gpu_build):
    launch = write_launch("cuda")
    gpu_build.on_device(launch.context.canary_buf.device)
    torch.cuda.synchronize()
    side = torch.cuda.Stream()

    with torch.cuda.stream(side):
        torch.cuda._sleep(20_000_000)
        gpu_build.launch_canary_write_kernel(**launch.arguments())
        copy = launch.context.canary_buf.clone()
    assert not side.query()
    side.synchronize()

    assert torch.equal(copy.cpu(), expected_after())


def test_captured_launches_read_contents_at_replay(gpu_build):
    launch = write_launch("cuda")
    verify = verify_launch(launch.context)
    gpu_build.launch_canary_write_kernel(**launch.arguments())
    gpu_build.launch_canary_verify_kernel(**verify.arguments())
    torch.cuda.synchronize()
    launch.context.kernel_run_counter.zero_()
    launch.context.slot_run_counter.zero_()
    launch.context.violation_write_index.zero_()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        gpu_build.launch_canary_write_kernel(**launch.arguments())
        gpu_build.launch_canary_verify_kernel(**verify.arguments())
    torch.cuda.synchronize()
    assert launch.context.kernel_run_counter.item() == 0

    graph.replay()
    first = launch.context.canary_buf.cpu()
    launch.input_ids.add_(1000)
    verify.plan.verify_num_valid.fill_(150)
    graph.replay()

    assert torch.equal(first, expected_after())
    assert torch.equal(launch.context.canary_buf.cpu(), expected_after(first_token=1010))
    assert launch.context.kernel_run_counter.item() == 4
    assert launch.context.slot_run_counter.item() == 3 * ENTRIES + 150
    assert launch.context.violation_write_index.item() == 2


@pytest.mark.parametrize("stride", [32, 40, 48, 64])
@pytest.mark.parametrize("shift", [8, 16, 24, 48])
def test_every_allowed_base_of_the_canary_buffer(gpu_build, stride, shift):
    launch = write_launch("cuda", slot_stride_bytes=stride)
    rows = ENTRIES + 1
    memory = torch.full((rows * stride + 64,), 0xA5, dtype=torch.uint8, device="cuda")
    shifted = memory[shift : shift + rows * stride].view(rows, stride)
    shifted.zero_()
    launch = replace(launch, context=replace(launch.context, canary_buf=shifted))

    gpu_build.launch_canary_write_kernel(**launch.arguments())

    assert torch.equal(shifted.cpu(), expected_after(slot_stride_bytes=stride))
    assert bool((memory[:shift] == 0xA5).all())
    assert bool((memory[shift + rows * stride :] == 0xA5).all())


def test_tensors_decide_the_device_and_not_the_current_one(gpu_build):
    if torch.cuda.device_count() < 2:
        pytest.skip("this machine has one CUDA device")
    launch = write_launch("cuda:1")

    with torch.cuda.device(0):
        gpu_build.launch_canary_write_kernel(**launch.arguments())
        assert torch.cuda.current_device() == 0
    torch.cuda.synchronize(1)

    assert torch.equal(launch.context.canary_buf.cpu(), expected_after())


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_tensors_elsewhere_are_refused(gpu_build, device):
    launch = write_launch("cpu")
    context = replace(launch.context, canary_buf=launch.context.canary_buf.to(device))

    with pytest.raises(ValueError, match=r"^kv-canary: "):
        gpu_build.launch_canary_write_kernel(**replace(launch, context=context).arguments())


def test_public_launcher_takes_both_kinds_of_tensors(gpu_build):
    from kv_canary_fuzz import kernels

    assert gpu_build is not None
    for device in ("cpu", "cuda"):
        launch = write_launch(device)
        kernels.launch_canary_write_kernel(**launch.arguments())
        assert torch.equal(launch.context.canary_buf.cpu(), expected_after())


def test_kernels_do_not_spill_out_of_their_registers(gpu_build):
    registers = gpu_build.on_device(torch.device("cuda", 0)).registers

    assert max(registers.values()) <= 128
