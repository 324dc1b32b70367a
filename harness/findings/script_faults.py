"""What a fault does to a launch, as a line of a standalone script."""

from __future__ import annotations

from kv_canary_fuzz.strategies.case import Fault

_SPARE = (
    'Bag(tensor=u8(len(state["canary_buf"]), 16), page_size=1, num_bytes_per_token=16, '
    "read_bytes=16)"
)


def fault_line(launch: str, fault: Fault) -> str:
    """An assignment to the variable ``launch``, a dict of a launcher's arguments."""
    context = f'{launch}["context"]'
    match fault.kind:
        case "too_many_sources":
            sources = f"{context}.real_kv_sources"
            repeated = f"({sources} or ({_SPARE},)) * {fault.amount}"
            return f"{sources} = ({repeated})[:{fault.amount}]"
        case "hash_mode":
            return f"{context}.real_kv_hash_mode = {fault.amount}"
        case "expected_missing":
            return f'{launch}["{fault.tensor}"] = None'
        case "expected_unwanted":
            return f'{launch}["{fault.tensor}"] = {launch}["input_ids"].clone()'
    place = tensor_place(launch, fault.tensor or "canary_buf")
    if fault.tensor.startswith("real_kv_sources["):
        source, field = place.rsplit(".", 1)
        changed = _changed(fault, "t.tensor")
        index = fault.tensor[len("real_kv_sources[")]
        replaced = f"Bag(**{{**vars(t), '{field}': {changed}}}) if k == {index} else t"
        sources = source.rsplit("[", 1)[0]
        return f"{sources} = tuple({replaced} for k, t in enumerate({sources}))"
    return f"{place} = {_changed(fault, place)}"


def tensor_place(launch: str, name: str) -> str:
    """Where the tensor that a refusal calls ``name`` is in a launch."""
    if name.startswith("plan."):
        return f'{launch}["plan"].{name.removeprefix("plan.")}'
    if name.startswith("real_kv_sources[") or name in _CONTEXT:
        return f'{launch}["context"].{name}'
    return f'{launch}["{name}"]'


_CONTEXT = {
    "canary_buf",
    "violation_ring",
    "violation_write_index",
    "slot_run_counter",
    "kernel_run_counter",
    "enable_chain_position_assert",
}


def _changed(fault: Fault, t: str) -> str:
    match fault.kind:
        case "not_contiguous":
            return f"torch.stack([{t}, {t}], -1)[..., 0]"
        case "rank":
            return f"{t}.reshape(-1)" if fault.amount == 1 else f"{t}.unsqueeze(1).clone()"
        case "dtype":
            others = "{8: torch.float64, 4: torch.float32, 1: torch.int8}"
            return f"{t}.to({others}[{t}.element_size()])"
        case "shape" if fault.amount < 0:
            return f"{t}[:-1].clone()"
        case "shape":
            return f"torch.cat([{t}, {t}.new_zeros((1, *{t}.shape[1:]))])"
        case "device":
            return f'{t}.to("meta")'
        case "misaligned":
            shift = fault.amount
            return f"{t}.new_empty({t}.numel() + {shift})[{shift}:].view({t}.shape).copy_({t})"
        case "slot_stride":
            return f"{t}.new_zeros(({t}.shape[0], {fault.amount}))"
        case "short_source":
            return f"{t}[:{fault.amount}].clone()"
    raise ValueError(f"fault {fault.kind} does not change a tensor")
