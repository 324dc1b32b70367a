"""The kinds of illegal launch (contract, section 7), and which of them apply to a step.

What ``amount`` means: ``too_many_sources`` the total count; ``rank`` the rank of the source's
tensor; ``shape`` the change of dimension 0; ``misaligned`` bytes that the base is off by;
``slot_stride`` the stride in bytes; ``short_source`` the rows of the tensor; ``hash_mode`` the
mode; ``source_field`` the value given to RealKvSource's constructor, which refuses it. It is 0 for
the other kinds.
"""

from __future__ import annotations

from kv_canary_fuzz.reference.consts import CANARY_SLOT_BYTES, MAX_REAL_KV_SOURCES

from .case import Case, Fault, FaultKind, Source, VerifyStep, WriteStep
from .draw import Draw, spread

Launch = WriteStep | VerifyStep

MOST_SOURCES = 8
STATE_SCALARS = (
    "violation_write_index",
    "slot_run_counter",
    "kernel_run_counter",
    "enable_chain_position_assert",
)
WRITE_COLUMNS = {
    "plan.write_offsets": "write_offsets",
    "plan.write_seed_slot_indices": "write_seed_slot_indices",
    "input_ids": "input_ids",
    "positions": "positions",
    "out_cache_loc": "out_cache_loc",
    "expected_input_tokens": "expected_input_tokens",
    "expected_input_positions": "expected_input_positions",
}
VERIFY_COLUMNS = {
    f"plan.{name}": name
    for name in (
        "verify_slot_indices",
        "verify_expected_tokens",
        "verify_expected_positions",
        "verify_prev_slot_indices",
    )
}
EXPECTED = ("expected_input_tokens", "expected_input_positions")

_KINDS: tuple[FaultKind, ...] = spread(
    *(("not_contiguous", 5), ("dtype", 4), ("shape", 4), ("device", 3), ("expected_missing", 3)),
    *(("expected_unwanted", 3), ("too_many_sources", 3), ("rank", 3), ("misaligned", 3)),
    *(("slot_stride", 2), ("short_source", 2), ("hash_mode", 2), ("source_field", 4)),
)


KINDS = tuple(dict.fromkeys(_KINDS))


def column_lengths(step: Launch) -> dict[str, int]:
    """The step's own int64 tensors, by the name of a refusal's message, and their lengths."""
    names = WRITE_COLUMNS if isinstance(step, WriteStep) else VERIFY_COLUMNS
    columns = ((name, getattr(step, attribute)) for name, attribute in names.items())
    return {name: column.length for name, column in columns if column is not None}


def scalar_names(step: Launch) -> tuple[str, ...]:
    """The step's tensors of one element."""
    if isinstance(step, WriteStep):
        return (*STATE_SCALARS, "plan.write_num_valid_reqs")
    return (*STATE_SCALARS, "plan.verify_num_valid", "plan.enable")


def _source_names(case: Case) -> list[str]:
    return [f"real_kv_sources[{i}].tensor" for i in range(len(case.real_kv_sources))]


def tensor_names(case: Case, step: Launch, kind: str) -> list[str]:
    """The tensors that a fault of this kind can be put upon; empty where it names none."""
    columns = column_lengths(step)
    if kind == "not_contiguous":
        sources = [
            name
            for name, source in zip(_source_names(case), case.real_kv_sources, strict=True)
            if source.rows > 1
        ]
        ring = ["violation_ring"] if case.ring_capacity else []
        long = [name for name, length in columns.items() if length > 1]
        return ["canary_buf", *ring, *long, *sources]
    if kind == "dtype":
        return ["canary_buf", "violation_ring", *scalar_names(step), *columns]
    if kind == "device":
        every = ["canary_buf", "violation_ring", *scalar_names(step), *columns]
        return every + _source_names(case)
    if kind == "shape":
        return [*scalar_names(step), *columns]
    if kind in ("rank", "short_source"):
        return _source_names(case)
    if kind == "misaligned":
        return ["canary_buf", *_source_names(case)]
    if kind in ("expected_missing", "expected_unwanted"):
        wanted = kind == "expected_missing"
        fits = isinstance(step, WriteStep) and step.enable_write_input_assert is wanted
        return list(EXPECTED) if fits else []
    if kind == "source_field":
        fields = ("page_size", "num_bytes_per_token", "read_bytes")
        return [
            f"real_kv_sources[{i}].{f}" for i in range(len(case.real_kv_sources)) for f in fields
        ]
    return []


def subjects(fault: Fault) -> frozenset[str]:
    """What a fault is put upon: two faults of one step may have nothing in common.

    Lengths are one subject, since two wrong ones can fit each other and make a legal launch.
    """
    if fault.kind == "slot_stride":
        return frozenset({"canary_buf"})
    if fault.kind in ("too_many_sources", "hash_mode"):
        return frozenset({fault.kind})
    tensor = fault.tensor.partition("]")[0]
    return frozenset({tensor, "lengths"} if fault.kind == "shape" else {tensor})


def source_of(case: Case, fault: Fault) -> Source:
    """The source that ``fault.tensor`` names."""
    return case.real_kv_sources[int(fault.tensor[len("real_kv_sources[")])]


def legal_source_field(source: Source, field: str, value: int) -> bool:
    """Whether RealKvSource would accept ``value`` in place of the source's own."""
    page_size, token_bytes, read_bytes = (
        value if field == name else own
        for name, own in (
            ("page_size", source.page_size),
            ("num_bytes_per_token", source.num_bytes_per_token),
            ("read_bytes", source.read_bytes),
        )
    )
    if page_size < 1 or token_bytes < 16 or token_bytes % 16:
        return False
    if read_bytes < 16 or read_bytes % 16 or read_bytes > token_bytes:
        return False
    return page_size * token_bytes <= source.row_bytes


def _illegal_amounts(case: Case, step: Launch, kind: str, tensor: str) -> tuple[int, ...]:
    """Amounts to choose from; empty where the kind cannot be had on this tensor."""
    if kind == "too_many_sources":
        return (
            tuple(range(MAX_REAL_KV_SOURCES + 1, MOST_SOURCES + 1)) if case.real_kv_sources else ()
        )
    if kind == "hash_mode":
        return (3, -1, 4, 255, 2**31)
    if kind == "slot_stride":
        return (24, 36, 33, 16)
    if kind == "rank":
        return (1, 3)
    if kind == "misaligned":
        return (4,) if tensor == "canary_buf" else (8,)
    if kind == "shape":
        return (1, -1) if column_lengths(step).get(tensor, 1) else (1,)
    if kind == "short_source":
        source = source_of(case, Fault(kind="short_source", tensor=tensor))
        needed = -(-case.num_slots // source.page_size)
        return (needed - 1,) if needed > 1 else ()
    if kind == "source_field":
        source = source_of(case, Fault(kind="source_field", tensor=tensor))
        field = tensor.rpartition(".")[2]
        wide = source.row_bytes // source.num_bytes_per_token + 1
        options = {
            "page_size": (0, -1, wide),
            "num_bytes_per_token": (0, 8, 24, -16, 16 * source.row_bytes),
            "read_bytes": (0, 8, 24, -16, source.num_bytes_per_token + 16),
        }[field]
        return tuple(v for v in options if not legal_source_field(source, field, v))
    return (0,)


def draw_fault(draw: Draw, case: Case, step: Launch) -> Fault | None:
    """A fault that makes the step illegal; None where the kind drawn does not apply to it."""
    kind = draw.choice(_KINDS)
    names = tensor_names(case, step, kind)
    if not names and kind not in ("too_many_sources", "hash_mode", "slot_stride"):
        return None
    tensor = draw.choice(names) if names else ""
    amounts = _illegal_amounts(case, step, kind, tensor)
    if not amounts:
        return None
    return Fault(kind=kind, tensor=tensor, amount=draw.choice(amounts))


def draw_faults(draw: Draw, case: Case, step: Launch) -> tuple[Fault, ...]:
    """One fault or two on different things; a wrong dtype where nothing else was met."""
    wanted = 2 if draw.chance(30) else 1
    faults: list[Fault] = []
    for _ in range(4):
        fault = draw_fault(draw, case, step)
        if fault is not None and not any(subjects(fault) & subjects(other) for other in faults):
            faults.append(fault)
        if len(faults) == wanted:
            break
    return tuple(faults) or (Fault(kind="dtype", tensor="canary_buf"),)


def why_not(case: Case, step: Launch, fault: Fault) -> str | None:
    """Why a fault does not make this step's launch illegal; None where it does."""
    names = tensor_names(case, step, fault.kind)
    if fault.tensor not in (names or [""]):
        return f"{fault.kind} cannot be put upon {fault.tensor or 'nothing'!r}"
    if not names and fault.kind not in ("too_many_sources", "hash_mode", "slot_stride"):
        return f"{fault.kind} does not apply to this step"
    amount = fault.amount
    legal = {
        "too_many_sources": not (
            case.real_kv_sources and MAX_REAL_KV_SOURCES < amount <= MOST_SOURCES
        ),
        "hash_mode": 0 <= amount <= 2,
        "slot_stride": not 0 < amount <= 4096 or (amount >= CANARY_SLOT_BYTES and not amount % 8),
        "rank": amount not in (1, 3),
        "misaligned": amount != (4 if fault.tensor == "canary_buf" else 8),
        "shape": abs(amount) != 1 or column_lengths(step).get(fault.tensor, 1) + amount < 0,
        "short_source": fault.kind == "short_source"
        and not 0 < amount < -(-case.num_slots // source_of(case, fault).page_size),
        "source_field": fault.kind == "source_field"
        and legal_source_field(source_of(case, fault), fault.tensor.rpartition(".")[2], amount),
    }.get(fault.kind, amount != 0)
    return f"amount {amount} leaves the launch legal" if legal else None
