"""Section 7: what is refused, with which words, and that nothing has moved."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from kv_canary_fuzz.reference import (
    RealKvSource,
    VerifyPlan,
    WritePlan,
    check_verify,
    check_write,
    consts,
    is_valid_kv_source,
    sources_within_abi_limit,
)
from kv_canary_fuzz.reference.building import (
    build_context,
    build_source,
    build_verify_launch,
    build_write_launch,
)

POISON = [(-7,) * 8] * 2


def a_source(**changes):
    values = {"rows": 8, "page_size": 1, "num_bytes_per_token": 16, **changes}
    return build_source(bytes(range(128)), **values)


def a_write(sources=1):
    context = build_context(
        violation_ring=POISON,
        canary_buf=bytes(range(256)),
        real_kv_sources=[a_source() for _ in range(sources)],
        real_kv_hash_mode=2,
        enable_chain_position_assert=1,
    )
    return build_write_launch(
        context,
        write_offsets=[0, 1, 2],
        write_seed_slot_indices=[-1, 3],
        input_ids=[5, 6],
        positions=[0, 9],
        out_cache_loc=[1, 2],
        expected_input_tokens=[5, 7],
        expected_input_positions=[0, 9],
    )


def a_verify(sources=1):
    return build_verify_launch(
        a_write(sources).context,
        verify_slot_indices=[1, 2, 3],
        verify_expected_positions=[0, 1, 2],
        verify_prev_slot_indices=[-1, 1, 2],
        verify_expected_tokens=[4, 5, 6],
    )


def changed(launch, name, change):
    """The launch with the tensor that messages call ``name`` replaced by ``change(tensor)``."""
    if name.startswith("real_kv_sources"):
        index = int(name[len("real_kv_sources[") :].split("]")[0])
        sources = list(launch.context.real_kv_sources)
        sources[index] = replace(sources[index], tensor=change(sources[index].tensor))
        return replace(launch, context=replace(launch.context, real_kv_sources=tuple(sources)))
    if name.startswith("plan."):
        field = name.removeprefix("plan.")
        plan = replace(launch.plan, **{field: change(getattr(launch.plan, field))})
        return replace(launch, plan=plan)
    if hasattr(launch, name):
        return replace(launch, **{name: change(getattr(launch, name))})
    context = replace(launch.context, **{name: change(getattr(launch.context, name))})
    return replace(launch, context=context)


def contents(launch):
    """Every number that a launch could change."""
    tensors = [getattr(launch.context, name) for name in CONTEXT]
    return [None if tensor.is_meta else tensor.tolist() for tensor in tensors]


def assert_refused(run, launch, message):
    before = contents(launch)
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the whole message is compared below
        run(launch)
    assert str(error.value) == f"kv-canary: {message}"
    assert contents(launch) == before


CONTEXT = [
    "canary_buf",
    "violation_ring",
    "violation_write_index",
    "slot_run_counter",
    "kernel_run_counter",
    "enable_chain_position_assert",
]
WRITE = [
    *CONTEXT,
    "plan.write_offsets",
    "plan.write_seed_slot_indices",
    "plan.write_num_valid_reqs",
    "input_ids",
    "positions",
    "out_cache_loc",
    "expected_input_tokens",
    "expected_input_positions",
]
VERIFY = [
    *CONTEXT,
    "plan.verify_slot_indices",
    "plan.verify_expected_tokens",
    "plan.verify_expected_positions",
    "plan.verify_prev_slot_indices",
    "plan.verify_num_valid",
    "plan.enable",
]
EITHER = [(a_write, name) for name in WRITE] + [(a_verify, name) for name in VERIFY]
either = pytest.mark.parametrize(("make", "name"), EITHER)
both = pytest.mark.parametrize("make", [a_write, a_verify])


def spread(tensor):
    """A tensor with steps of two elements; one of a single element, which has no step, grows."""
    several = tensor if tensor.numel() > 1 else tensor.repeat(2)
    return several.repeat_interleave(2, dim=-1)[..., ::2]


@both
@pytest.mark.parametrize("count", [5, 8])
def test_more_sources_than_compiled(run, make, count):
    bound = "at most 4 RealKvSource entries supported by the CUDA ABI"

    assert_refused(run, make(sources=count), f"{bound}, got {count}")


@both
def test_bound_on_sources_is_read_when_the_launch_is_checked(run, make, monkeypatch):
    monkeypatch.setattr(consts, "MAX_REAL_KV_SOURCES", 2)
    bound = "at most 2 RealKvSource entries supported by the CUDA ABI"

    assert_refused(run, make(sources=3), f"{bound}, got 3")
    run(make(sources=2))


def test_bound_on_sources_may_be_given():
    check_write(a_write(sources=6), max_sources=6)
    check_verify(a_verify(sources=6), max_sources=6)
    with pytest.raises(ValueError, match=r"^kv-canary: at most 6 .* ABI, got 7$"):
        check_verify(a_verify(sources=7), max_sources=6)


@either
def test_not_contiguous(run, make, name):
    assert_refused(run, changed(make(), name, spread), f"{name} must be contiguous")


@both
def test_source_not_contiguous(run, make):
    launch = changed(
        make(sources=3),
        "real_kv_sources[2].tensor",
        lambda _: torch.zeros(16, 16, dtype=torch.uint8)[::2],
    )

    assert_refused(run, launch, "real_kv_sources[2].tensor must be contiguous")


@both
@pytest.mark.parametrize("shape", [(128,), (2, 4, 16)])
def test_source_of_another_rank(run, make, shape):
    launch = changed(make(), "real_kv_sources[0].tensor", lambda tensor: tensor.view(shape))
    name = "real_kv_sources[0].tensor (viewed as uint8)"

    assert_refused(run, launch, f"{name} must be 2-D, got {len(shape)}-D")


@pytest.mark.parametrize("name", ["expected_input_tokens", "expected_input_positions"])
def test_assert_without_an_expected_tensor(run, name):
    launch = replace(a_write(), **{name: None})

    assert_refused(
        run, launch, "expected input tensors are required when enable_write_input_assert=True"
    )


@pytest.mark.parametrize("name", ["expected_input_tokens", "expected_input_positions"])
def test_expected_tensor_without_assert(run, name):
    launch = replace(a_write(), enable_write_input_assert=False, **{name: None})

    assert_refused(
        run, launch, "expected input tensors must be None when enable_write_input_assert=False"
    )


@either
def test_dtype(run, make, name):
    launch = changed(make(), name, lambda tensor: tensor.to(torch.float64))
    right = {torch.uint8: "uint8", torch.int32: "int32", torch.int64: "int64"}
    dtypes = []
    changed(make(), name, lambda tensor: dtypes.append(tensor.dtype) or tensor)

    assert_refused(run, launch, f"{name} must be torch.{right[dtypes[0]]}, got torch.float64")


LENGTHS = [
    (a_write, "violation_write_index", 1),
    (a_write, "slot_run_counter", 1),
    (a_write, "kernel_run_counter", 1),
    (a_write, "enable_chain_position_assert", 1),
    (a_write, "plan.write_offsets", 3),
    (a_write, "plan.write_num_valid_reqs", 1),
    (a_write, "positions", 2),
    (a_write, "out_cache_loc", 2),
    (a_write, "expected_input_tokens", 2),
    (a_write, "expected_input_positions", 2),
    (a_verify, "plan.verify_expected_tokens", 3),
    (a_verify, "plan.verify_expected_positions", 3),
    (a_verify, "plan.verify_prev_slot_indices", 3),
    (a_verify, "plan.verify_num_valid", 1),
    (a_verify, "plan.enable", 1),
]


@pytest.mark.parametrize(("make", "name", "length"), LENGTHS)
@pytest.mark.parametrize("more", [1, -1])
def test_length(run, make, name, length, more):
    launch = changed(make(), name, lambda tensor: tensor.repeat(2)[: length + more].clone())

    assert_refused(run, launch, f"{name} must have shape [{length}], got [{length + more}]")


def test_lengths_follow_the_seeds_the_ids_and_the_verified_slots(run):
    longer = [
        (
            a_write,
            "plan.write_seed_slot_indices",
            "plan.write_offsets must have shape [4], got [3]",
        ),
        (a_write, "input_ids", "positions must have shape [3], got [2]"),
        (
            a_verify,
            "plan.verify_slot_indices",
            "plan.verify_expected_tokens must have shape [4], got [3]",
        ),
    ]
    for make, name, message in longer:
        launch = changed(make(), name, lambda tensor: torch.cat((tensor, tensor[:1])))

        assert_refused(run, launch, message)


@pytest.mark.parametrize(
    ("name", "shape"),
    [("canary_buf", "[n, m]"), ("violation_ring", "[n, 8]")],
)
def test_matrix_of_another_rank(run, name, shape):
    launch = changed(a_verify(), name, lambda tensor: tensor.view(-1))
    found = {"canary_buf": 256, "violation_ring": 16}[name]

    assert_refused(run, launch, f"{name} must have shape {shape}, got [{found}]")


@pytest.mark.parametrize(
    ("make", "name"),
    [(a_write, "plan.write_seed_slot_indices"), (a_write, "input_ids")],
)
def test_vector_of_another_rank(run, make, name):
    launch = changed(make(), name, lambda tensor: tensor.view(1, -1))

    assert_refused(run, launch, f"{name} must have shape [n], got [1, 2]")


@either
def test_device(run, make, name):
    launch = changed(make(), name, lambda tensor: tensor.to("meta"))
    home = "be on the device of canary_buf, got"
    where = "have memory, got device" if name == "canary_buf" else home

    assert_refused(run, launch, f"{name} must {where} meta")


@both
def test_source_device(run, make):
    launch = changed(make(), "real_kv_sources[0].tensor", lambda tensor: tensor.to("meta"))

    assert_refused(
        run, launch, "real_kv_sources[0].tensor must be on the device of canary_buf, got meta"
    )


@both
@pytest.mark.parametrize("stride", [0, 8, 24, 31, 36])
def test_slot_stride(run, make, stride):
    launch = changed(make(), "canary_buf", lambda _: torch.zeros(8, stride, dtype=torch.uint8))
    rule = "a slot stride of 32 or more, a multiple of 8"

    assert_refused(run, launch, f"canary_buf must have {rule}, got {stride}")


def moved(tensor, past):
    """A copy of the tensor that starts ``past`` bytes after a multiple of 64."""
    memory = torch.zeros(tensor.nbytes + 192, dtype=torch.uint8)
    start = -memory.data_ptr() % 64 + past
    copy = memory[start : start + tensor.nbytes].view(tensor.shape)
    return copy.copy_(tensor)


def test_misaligned(run):
    for name, past, alignment in [
        ("canary_buf", 4, 8),
        ("real_kv_sources[0].tensor", 8, 16),
    ]:
        launch = changed(a_write(), name, lambda tensor, past=past: moved(tensor, past))
        rule = f"must start at a multiple of {alignment} bytes"

        assert_refused(run, launch, f"{name} {rule}, got {past} past one")


@pytest.mark.parametrize(("dtype", "past"), [(torch.int64, 4), (torch.int32, 2)])
def test_misaligned_numbers_in_borrowed_memory(run, dtype, past):
    memory = bytearray(64)
    start = -torch.frombuffer(memory, dtype=torch.uint8).data_ptr() % 8 + past
    borrowed = torch.frombuffer(memory, dtype=dtype, offset=start, count=1)
    name = "slot_run_counter" if dtype is torch.int64 else "violation_write_index"
    launch = changed(a_write(), name, lambda _: borrowed)
    rule = f"must start at a multiple of {dtype.itemsize} bytes"

    assert_refused(run, launch, f"{name} {rule}, got {past} past one")


@both
def test_source_that_covers_too_few_slots(run, make):
    launch = changed(make(), "real_kv_sources[0].tensor", lambda tensor: tensor[:7].clone())

    assert_refused(run, launch, "real_kv_sources[0].tensor must cover 8 slots, got 7 rows of 1")


@both
@pytest.mark.parametrize("mode", [3, -1])
@pytest.mark.parametrize("sources", [0, 1])
def test_hash_mode(run, make, mode, sources):
    launch = make(sources=sources)
    launch = replace(launch, context=replace(launch.context, real_kv_hash_mode=mode))

    assert_refused(run, launch, f"real_kv_hash_mode must be 0, 1 or 2, got {mode}")


def test_order_of_refusals(run):
    faults = [
        ("real_kv_hash_mode must be 0, 1 or 2, got 9", "real_kv_hash_mode", lambda _: 9),
        ("canary_buf must be torch.uint8, got torch.int8", "canary_buf", torch.Tensor.char),
        (
            "real_kv_sources[1].tensor (viewed as uint8) must be 2-D, got 1-D",
            "real_kv_sources[1].tensor",
            torch.Tensor.flatten,
        ),
        ("input_ids must be contiguous", "input_ids", spread),
        ("violation_ring must be contiguous", "violation_ring", spread),
    ]
    launch = a_write(sources=2)
    for message, name, change in faults:
        launch = changed(launch, name, change)
        assert_refused(run, launch, message)
    five = (*launch.context.real_kv_sources, *(a_source() for _ in range(3)))
    launch = replace(launch, context=replace(launch.context, real_kv_sources=five))
    bound = "at most 4 RealKvSource entries supported by the CUDA ABI"
    assert_refused(run, launch, f"{bound}, got 5")


SOURCE_FAULTS = [
    ({"page_size": 0}, "page_size must be at least 1, got 0"),
    ({"page_size": -3}, "page_size must be at least 1, got -3"),
    (
        {"num_bytes_per_token": 0},
        "num_bytes_per_token must be a positive multiple of 16, got 0",
    ),
    (
        {"num_bytes_per_token": -16},
        "num_bytes_per_token must be a positive multiple of 16, got -16",
    ),
    (
        {"num_bytes_per_token": 24},
        "num_bytes_per_token must be a positive multiple of 16, got 24",
    ),
    *(
        (
            {"read_bytes": read},
            "read_bytes must be a positive multiple of 16, "
            f"at most num_bytes_per_token=32, got {read}",
        )
        for read in (0, -16, 8, 48)
    ),
    (
        {"tensor": torch.zeros(2, 24, dtype=torch.uint8)},
        "tensor must step a positive multiple of 16 bytes a row, got 24",
    ),
    (
        {"tensor": torch.zeros(1, 64, dtype=torch.uint8).expand(4, 64)},
        "tensor must step a positive multiple of 16 bytes a row, got 0",
    ),
    (
        {"tensor": torch.zeros(2, 8, dtype=torch.int32)},
        "tensor must have rows of at least 64 bytes (page_size * num_bytes_per_token), got 32",
    ),
]


@pytest.mark.parametrize(("change", "message"), SOURCE_FAULTS)
def test_source_constructor(change, message):
    tensor = torch.zeros(2, 64, dtype=torch.uint8)
    good = {"tensor": tensor, "page_size": 2, "num_bytes_per_token": 32, "read_bytes": 16}
    RealKvSource(**good)

    with pytest.raises(ValueError) as error:  # noqa: PT011 - the whole message is compared below
        RealKvSource(**{**good, **change})

    assert str(error.value) == f"kv-canary: RealKvSource.{message}"


@pytest.mark.parametrize("capacity", [0, -1])
def test_plans_of_no_capacity(capacity):
    with pytest.raises(ValueError, match=f"^kv-canary: write_req_capacity .* got {capacity}$"):
        WritePlan.allocate(write_req_capacity=capacity, device="cpu")
    with pytest.raises(ValueError, match=f"^kv-canary: verify_capacity .* got {capacity}$"):
        VerifyPlan.allocate(verify_capacity=capacity, device="cpu")


def test_allocated_plans_are_empty_and_fit_a_launch(run):
    write = replace(a_write(), plan=WritePlan.allocate(write_req_capacity=3, device="cpu"))
    verify = replace(a_verify(), plan=VerifyPlan.allocate(verify_capacity=3, device="cpu"))

    for launch in (write, verify):
        run(launch)

        assert launch.context.kernel_run_counter.tolist() == [1]
        assert launch.context.slot_run_counter.tolist() == [0]


def test_predicates():
    assert sources_within_abi_limit([a_source()] * 4)
    assert not sources_within_abi_limit([a_source()] * 5)
    flat = replace(a_source(), tensor=torch.zeros(128, dtype=torch.uint8))
    holed = replace(a_source(), tensor=torch.zeros(16, 16, dtype=torch.uint8)[::2])
    assert [is_valid_kv_source(source) for source in (a_source(), flat, holed)] == [
        True,
        False,
        False,
    ]
