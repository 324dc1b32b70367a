"""The torch reference and the scalar model agree on small launches of every kind, byte for byte."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kv_canary_fuzz.reference import (
    WriteLaunch,
    run_verify_batch,
    run_write_batch,
    scalar_model,
)
from kv_canary_fuzz.reference.building import (
    build_context,
    build_source,
    build_verify_launch,
    build_write_launch,
)
from kv_canary_fuzz.reference.golden import CanaryState
from kv_canary_fuzz.reference.relocation import map_tensors

INT64_MAX, INT64_MIN = 2**63 - 1, -(2**63)
EDGES = [INT64_MIN, -(2**31) - 1, -2, -1, 2**31, 2**32, INT64_MAX - 1, INT64_MAX]
number = st.one_of(st.integers(0, 3), st.sampled_from(EDGES))
int32 = st.one_of(st.integers(-2, 6), st.sampled_from([-(2**31), 2**31 - 2, 2**31 - 1]))
MODELS = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def sources(draw, num_slots):
    page_size = draw(st.integers(1, 5))
    width = 16 * draw(st.integers(1, 4))
    rows = -(-num_slots // page_size) + draw(st.integers(0, 1))
    row_bytes = page_size * width + 16 * draw(st.integers(0, 1))
    random = draw(st.randoms(use_true_random=False))
    return build_source(
        random.randbytes(rows * row_bytes),
        rows=rows,
        page_size=page_size,
        num_bytes_per_token=width,
        read_bytes=16 * draw(st.integers(1, width // 16)),
    )


@st.composite
def contexts(draw):
    num_slots = draw(st.integers(1, 10))
    stride = 8 * draw(st.integers(4, 7))
    random = draw(st.randoms(use_true_random=False))
    return build_context(
        num_slots=num_slots,
        slot_stride_bytes=stride,
        canary_buf=random.randbytes(num_slots * stride) if draw(st.booleans()) else None,
        kernel_kind=draw(st.integers(0, 11)),
        violation_ring=[(-7,) * 8] * draw(st.sampled_from([0, 1, 3, 40])),
        violation_write_index=draw(int32),
        slot_run_counter=draw(number),
        kernel_run_counter=draw(number),
        real_kv_sources=draw(st.lists(sources(num_slots), max_size=4)),
        real_kv_hash_mode=draw(st.integers(0, 2)),
        enable_chain_position_assert=draw(st.sampled_from([0, 1, -1])),
    )


@st.composite
def write_launches(draw):
    """Any offsets, counts, seeds and slots, as long as no slot has two requests that use it."""
    context = draw(contexts())
    num_slots, tokens = context.canary_buf.shape[0], draw(st.integers(0, 12))
    capacity = draw(st.integers(0, 4))
    offsets = sorted(
        draw(st.lists(st.integers(0, tokens), min_size=capacity + 1, max_size=capacity + 1))
    )
    for place in draw(st.lists(st.integers(0, capacity), max_size=2)):
        offsets[place] = draw(number)
    owners = draw(st.lists(st.integers(0, 3), min_size=num_slots, max_size=num_slots))
    outside = st.sampled_from([-1, INT64_MIN, num_slots, INT64_MAX])

    def a_slot_of(request):
        own = [slot for slot, owner in enumerate(owners) if owner == request]
        return st.one_of(st.sampled_from(own), outside) if own else outside

    slots = []
    for index in range(tokens):
        users = [
            request
            for request in range(capacity)
            if _clamp(offsets[request], tokens) <= index < _clamp(offsets[request + 1], tokens)
        ]
        slots.append(draw(a_slot_of(users[0]) if len(users) == 1 else outside))
    column = st.lists(number, min_size=tokens, max_size=tokens)
    ids, positions = draw(column), draw(st.one_of(column, st.just(list(range(tokens)))))
    checked = draw(st.booleans())
    return build_write_launch(
        context,
        write_offsets=offsets,
        write_seed_slot_indices=[draw(a_slot_of(request)) for request in range(capacity)],
        write_num_valid_reqs=draw(st.one_of(st.just(capacity), int32)),
        input_ids=ids,
        positions=positions,
        out_cache_loc=slots,
        expected_input_tokens=draw(st.one_of(column, st.just(ids))) if checked else None,
        expected_input_positions=draw(st.one_of(column, st.just(positions))) if checked else None,
    )


@st.composite
def verify_launches(draw, context=None):
    context = draw(contexts()) if context is None else context
    num_slots, capacity = context.canary_buf.shape[0], draw(st.integers(0, 8))
    slot = st.one_of(
        st.integers(0, num_slots - 1),
        st.sampled_from([-1, INT64_MIN, num_slots, INT64_MAX]),
    )
    slots = st.lists(slot, min_size=capacity, max_size=capacity)
    column = st.lists(number, min_size=capacity, max_size=capacity)
    return build_verify_launch(
        context,
        verify_slot_indices=draw(slots),
        verify_prev_slot_indices=draw(slots),
        verify_expected_positions=draw(column),
        verify_expected_tokens=draw(st.one_of(st.none(), column)),
        verify_num_valid=draw(st.one_of(st.just(capacity), int32)),
        enable=draw(st.sampled_from([1, 1, 1, -1, 0])),
    )


def _clamp(value, limit):
    return min(max(value, 0), limit)


def run_scalar(launch):
    if isinstance(launch, WriteLaunch):
        scalar_model.launch_canary_write_kernel(**launch.arguments())
    else:
        scalar_model.launch_canary_verify_kernel(**launch.arguments())


def assert_alike(launches, run_batch, pack):
    """The batch, run through one storage, and its launches, run one by one, end alike."""
    packed = pack(launches)
    scattered = [map_tensors(launch, lambda tensor: tensor.clone()) for launch in launches]
    for launch in launches:
        run_scalar(launch)
    run_batch(packed)
    run_batch(scattered)
    right = [CanaryState.of(launch.context) for launch in launches]
    assert [CanaryState.of(launch.context) for launch in packed] == right
    assert [CanaryState.of(launch.context) for launch in scattered] == right


@MODELS
@given(launches=st.lists(write_launches(), min_size=1, max_size=3))
def test_write(pack, launches):
    assert_alike(launches, run_write_batch, pack)


@MODELS
@given(launches=st.lists(verify_launches(), min_size=1, max_size=3))
def test_verify(pack, launches):
    assert_alike(launches, run_verify_batch, pack)


@MODELS
@given(data=st.data(), write=write_launches())
def test_verify_what_a_write_stamped(pack, data, write):
    """The chain is clean here, where a verification of noise would report every entry."""
    run_scalar(write)
    slots = [s for s in write.out_cache_loc.tolist() if 0 <= s < write.context.canary_buf.shape[0]]
    stored = [write.context.canary_buf[slot, 8:16].tolist() for slot in slots]
    launch = build_verify_launch(
        write.context,
        verify_slot_indices=slots,
        verify_prev_slot_indices=[-1, *slots][: len(slots)],
        verify_expected_positions=[
            int.from_bytes(bytes(position), "little", signed=True) for position in stored
        ],
        verify_expected_tokens=data.draw(
            st.lists(number, min_size=len(slots), max_size=len(slots))
        ),
    )

    assert_alike([launch, data.draw(verify_launches())], run_verify_batch, pack)
