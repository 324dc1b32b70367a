"""A finding as a short Python program that needs torch and the target's module alone.

It is made for other people's issue trackers, so it shows every tensor of the launch as a plain
expression and gives the target look-alikes of the contract's types.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from kv_canary_fuzz.strategies.case import (
    Case,
    Column,
    CorruptStep,
    Edit,
    Flip,
    Source,
    Step,
    VerifyStep,
    WriteStep,
)
from kv_canary_fuzz.strategies.content import Content

from ..execution.layout import step_columns, step_flags
from ..judging.mismatch import Rank
from ..judging.own_rows import with_room
from ..judging.verdict import Verdict, judge
from ..targets.target import Target
from .reproducer import Reproducer
from .script_checks import Check, check_of, stored_rows
from .script_faults import fault_line
from .script_target import target_lines

MOST_LINES = 39

_HELPERS = """\
def i64(values): return torch.tensor(values, dtype=torch.int64, device=DEVICE)
def i32(value): return torch.tensor([value], dtype=torch.int32, device=DEVICE)
def run(launcher, launch):
    try: return str(getattr(target, launcher)(**launch))
    except Exception as error: return f"{type(error).__name__}: {error}"
def u8(rows, width, fill=0, patches=(), seed=None):
    data = bytearray([fill]) * (rows * width) if seed is None else seeded(rows * width // 8, seed)
    for at, text in patches: data[at:at + len(text) // 2] = bytes.fromhex(text)
    return torch.tensor(list(data), dtype=torch.uint8, device=DEVICE).view(rows, width)"""

_SEEDED = """\
def seeded(words, seed):
    data, mask = bytearray(), 2**64 - 1
    for i in range(1, words + 1):
        x = seed + i * 0x9E3779B97F4A7C15 & mask
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & mask
        x = (x ^ x >> 27) * 0x94D049BB133111EB & mask
        data += (x ^ x >> 31).to_bytes(8, "little")
    return data"""


def script_text(
    found: Reproducer, target: Target, reference: Target | None, verdict: Verdict | None
) -> str:
    """The program for a finding; it ends with status 1 where the target still shows it.

    ``verdict`` is None where the launch does not return. Empty where no program of under 40 lines
    shows the finding: a case of very many steps, one that differs only with tensors off their
    alignment or with launches not put eagerly, or a difference between the reference and what
    the grammar knows, or one that takes the company of other cases.
    Where rows were lost for want of room, the program's ring has room.
    """
    case = found.case
    if found.company.size:
        return ""
    plain = replace(case, launching="eager", shift=0)
    if verdict and plain != case:
        verdict = judge(plain, target, reference)
        if verdict.signature != found.signature:
            return ""
    case = plain
    if verdict and verdict.mismatches and verdict.mismatches[0].rank is Rank.ROW:
        roomy = with_room(case, _most_rows(case))
        seen = judge(roomy, target, reference)
        if not seen.agrees and seen.mismatches[0].rank is Rank.ROW:
            case, verdict = roomy, seen
        elif _rows_were_lost(verdict):
            return ""
    check = check_of(case, verdict)
    if check is None:
        return ""
    last = len(case.steps) - 1 if verdict is None else verdict.step
    for compact in (False, True):
        lines = [*_head(found, target, check), *_body(case, last, check, compact)]
        if len(lines) <= MOST_LINES:
            return "\n".join(lines) + "\n"
    return ""


def _rows_were_lost(verdict: Verdict) -> bool:
    """Whether rows differ that neither side's ring shows, for want of room."""
    sides = (stored_rows(verdict, side) for side in (verdict.expected, verdict.found))
    return verdict.mismatches[0].rank is Rank.ROW and next(sides) == next(sides)


def _most_rows(case: Case) -> int:
    """A bound on the rows that all steps together append: two for each entry."""
    entries = [step.input_ids.length for step in case.steps if isinstance(step, WriteStep)]
    entries += [
        step.verify_slot_indices.length for step in case.steps if isinstance(step, VerifyStep)
    ]
    return 2 * sum(entries)


def _head(found: Reproducer, target: Target, check: Check) -> Iterator[str]:
    yield f'"""{found.signature}; found by kv-canary-fuzz, seed {found.seed} case {found.index}."""'
    yield "from types import SimpleNamespace as Bag"
    yield "import torch"
    yield from target_lines(target, found.case)
    yield f"DEVICE = {target.device!r}"
    case = check.case
    contents = [case.canary_buf, case.violation_ring, *(s.content for s in case.real_kv_sources)]
    if any(content.seed is not None for content in contents):
        yield from _SEEDED.splitlines()
    yield from _HELPERS.splitlines()


def _body(case: Case, last: int, check: Check, compact: bool) -> Iterator[str]:
    yield from _joined("state = dict(", _state(check.case), ")", compact)
    yield from check.before
    for number, step in enumerate(case.steps[: last + 1]):
        yield from _step(number, step, compact)
    yield from check.after


def _joined(head: str, parts: list[str], tail: str, compact: bool) -> Iterator[str]:
    if compact:
        yield head + ", ".join(parts) + tail
        return
    yield head
    yield from (f"    {part}," for part in parts[:-1])
    yield f"    {parts[-1]}{tail}"


def _state(case: Case) -> list[str]:
    sources = "".join(
        f"Bag(tensor={_source(s)}, page_size={s.page_size}, "
        f"num_bytes_per_token={s.num_bytes_per_token}, read_bytes={s.read_bytes}), "
        for s in case.real_kv_sources
    )
    ring = f"{_u8(case.ring_capacity, 64, case.violation_ring)}.view(torch.int64)"
    return [
        f"canary_buf={_u8(case.num_slots, case.slot_stride_bytes, case.canary_buf)}",
        f"violation_ring={ring}, violation_write_index=i32({case.violation_write_index})",
        f"slot_run_counter=i64([{case.slot_run_counter}]), "
        f"kernel_run_counter=i64([{case.kernel_run_counter}])",
        f"real_kv_sources=({sources}), real_kv_hash_mode={case.real_kv_hash_mode}",
    ]


def _source(source: Source) -> str:
    packed = _u8(source.rows, source.row_bytes, source.content)
    if not source.row_gap:
        return packed
    return f"torch.nn.functional.pad({packed}, (0, {source.row_gap}))[:, :{source.row_bytes}]"


def _u8(rows: int, width: int, content: Content) -> str:
    arguments = [str(rows), str(width)]
    if content.fill and content.seed is None:
        arguments.append(f"fill={content.fill}")
    if content.patches:
        arguments.append(f"patches={[(p.offset, p.hex) for p in content.patches]}")
    if content.seed is not None:
        arguments.append(f"seed={content.seed}")
    return f"u8({', '.join(arguments)})"


def _step(number: int, step: Step, compact: bool) -> Iterator[str]:
    if isinstance(step, CorruptStep):
        yield "; ".join(_edit_line(edit) for edit in step.edits) or "pass"
        return
    if any(fault.kind == "source_field" for fault in step.faults):
        yield f"# step {number} ends before a launch: its RealKvSource cannot be constructed"
        return
    yield from _joined(f"L{number} = dict(", _arguments(step), ")", compact)
    yield from (fault_line(f"L{number}", fault) for fault in step.faults)
    kind = "write" if isinstance(step, WriteStep) else "verify"
    yield f'outcome = run("launch_canary_{kind}_kernel", L{number})'


def _edit_line(edit: Edit) -> str:
    if isinstance(edit, Flip):
        if edit.region == "canary_buf":
            return f'state["canary_buf"].view(-1)[{edit.offset}] ^= {edit.mask}'
        tensor = f'state["real_kv_sources"][{edit.region[len("real_kv_sources[")]}].tensor'
        return f"{tensor}[divmod({edit.offset}, {tensor}.size(1))] ^= {edit.mask}"
    pair, swapped = f"[{edit.first}, {edit.second}]", f"[{edit.second}, {edit.first}]"
    return f'state["canary_buf"][{pair}, :32] = state["canary_buf"][{swapped}, :32]'


def _arguments(step: Step) -> list[str]:
    """The launch's keyword arguments, a line each: the context, the plan, and the rest."""
    assert not isinstance(step, CorruptStep)
    plan, rest, context = [], [], [f"kernel_kind={step.kernel_kind}"]
    values = [(name, f"i64({_numbers(column)})") for name, column in step_columns(step)]
    values += [(name, f"i32({flag})") for name, flag in step_flags(step)]
    for name, value in values:
        if name.startswith("plan."):
            plan.append(f"{name.removeprefix('plan.')}={value}")
        elif name == "enable_chain_position_assert":
            context.append(f"{name}={value}")
        else:
            rest.append(f"{name}={value}")
    if isinstance(step, WriteStep):
        rest.append(f"enable_write_input_assert={step.enable_write_input_assert}")
        optional = ("expected_input_tokens", "expected_input_positions")
        rest += [f"{name}=None" for name in optional if getattr(step, name) is None]
    else:
        rest.append(f"check_verify_expected_token={step.check_verify_expected_token}")
    return [f"context=Bag(**state, {', '.join(context)})", f"plan=Bag({', '.join(plan)})",
            ", ".join(rest)]  # fmt: skip


def _numbers(column: Column) -> str:
    gap = column.length - len(column.values) - len(column.tail)
    parts = []
    if column.values:
        parts.append(str(list(column.values)))
    if gap:
        parts.append(f"[{column.fill}]" + (f" * {gap}" if gap > 1 else ""))
    if column.tail:
        parts.append(str(list(column.tail)))
    return " + ".join(parts) or "[]"
