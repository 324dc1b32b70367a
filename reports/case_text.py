"""A case in words and tables: its state, its steps, and where two implementations part."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kv_canary_fuzz.harness.execution.layout import lay_out
from kv_canary_fuzz.harness.judging.company import Company
from kv_canary_fuzz.harness.judging.differences import FIELDS
from kv_canary_fuzz.harness.judging.mismatch import step_kind
from kv_canary_fuzz.harness.judging.stamps import entries_of
from kv_canary_fuzz.reference import CanaryLaunchTag, RealKvHashMode
from kv_canary_fuzz.strategies.case import (
    Case,
    Column,
    CorruptStep,
    Edit,
    Flip,
    Step,
    VerifyStep,
    WriteStep,
)
from kv_canary_fuzz.strategies.columns import at
from kv_canary_fuzz.strategies.content import Content

MOST_ROWS = 40
"""Entries of a step that are shown; the file holds the rest."""

MOST_CASES = 8
"""Cases of a batch that are shown, or more where the one that it is about comes later."""


def case_text(case: Case) -> RenderableType:
    """The whole case, from its state to its last step."""
    parts: list[RenderableType] = [_state_text(case)]
    if case.real_kv_sources:
        parts.append(_sources_table(case))
    for number, step in enumerate(case.steps):
        parts.append(Text(f"\nstep {number}: {step_kind(step)}{_flags_text(step)}"))
        parts.append(_step_table(case, step))
    return Group(*parts)


def sequence_text(case: Case, company: Company) -> RenderableType:
    """The case with those that run before and after it in its batch, in their order."""
    if not company.size:
        return case_text(case)
    parts: list[RenderableType] = []
    for number, one in enumerate(company.around(case)):
        this = ": the one that this is about" if number == len(company.before) else ""
        parts.append(Text(f"\ncase {number + 1} of {company.size + 1} in one batch{this}"))
        parts.append(case_text(one) if one.steps else _room_text(one))
        if number + 1 >= MOST_CASES and number >= len(company.before):
            break
    more = company.size + 1 - len(parts) // 2
    return Group(*parts, Text(f"\nand {more} more cases")) if more else Group(*parts)


def _room_text(case: Case) -> Text:
    return Text(f"launches nothing and takes {lay_out(case).size} bytes")


def content_text(content: Content) -> str:
    """How a region's bytes come about, in a few words."""
    base = f"fill 0x{content.fill:02x}" if content.seed is None else f"seed {content.seed}"
    patches = "".join(f", {len(p.hex) // 2} bytes at {p.offset}" for p in content.patches[:4])
    return base + patches


def _state_text(case: Case) -> Text:
    return Text(
        f"state: num_slots {case.num_slots}, stride {case.slot_stride_bytes} "
        f"({content_text(case.canary_buf)}); ring capacity {case.ring_capacity}, "
        f"write index {case.violation_write_index}; slot runs {case.slot_run_counter}, "
        f"kernel runs {case.kernel_run_counter}; "
        f"hash mode {RealKvHashMode(case.real_kv_hash_mode).name}; schedule {case.schedule}"
        f"{_variation_text(case)}"
    )


def _variation_text(case: Case) -> str:
    shift = f"; tensors begin {case.shift} bytes behind a multiple of 64" if case.shift else ""
    if case.launching == "eager":
        return shift
    how = {"side_stream": "on a side stream", "graph": "as a captured graph, replayed twice"}
    return f"{shift}; launched {how[case.launching]}"


def _sources_table(case: Case) -> Table:
    names = "source", "rows", "row bytes", "row step", "page size", "bytes/token", "read bytes"
    table = Table(*names, "content")
    for index, source in enumerate(case.real_kv_sources):
        numbers = source.rows, source.row_bytes, source.row_step, source.page_size
        sizes = source.num_bytes_per_token, source.read_bytes
        table.add_row(str(index), *map(str, (*numbers, *sizes)), content_text(source.content))
    return table


def _flags_text(step: Step) -> str:
    if isinstance(step, CorruptStep):
        return ""
    kind = step.kernel_kind
    tag = CanaryLaunchTag(kind).name if kind in list(CanaryLaunchTag) else str(kind)
    flags = [tag]
    if isinstance(step, WriteStep):
        flags += [
            f"{step.write_num_valid_reqs} of {step.write_seed_slot_indices.length} requests",
            f"input assert {'on' if step.enable_write_input_assert else 'off'}",
            f"position assert {step.enable_chain_position_assert}",
        ]
    else:
        flags += [
            f"{step.verify_num_valid} of {step.verify_slot_indices.length} entries",
            f"enable {step.enable}",
            f"tokens {'checked' if step.check_verify_expected_token else 'not checked'}",
        ]
    flags += [f"fault {f.kind} {f.tensor} {f.amount}".rstrip() for f in step.faults]
    return f" ({', '.join(flags)})"


def _step_table(case: Case, step: Step) -> Table:
    if isinstance(step, WriteStep):
        return _write_table(step)
    if isinstance(step, VerifyStep):
        return _verify_table(step)
    table = Table("edit")
    for edit in step.edits[:MOST_ROWS]:
        table.add_row(edit_text(case, edit))
    return table


def edit_text(case: Case, edit: Edit) -> str:
    """What an edit does, in terms of slots and fields."""
    if not isinstance(edit, Flip):
        return f"swap the canaries of slots {edit.first} and {edit.second}"
    if edit.region == "canary_buf":
        slot, inside = divmod(edit.offset, case.slot_stride_bytes)
        field = FIELDS[inside // 8] if inside < 32 else "padding"
        place = f"slot {slot}, {field}, byte {inside % 8 if inside < 32 else inside - 32}"
    else:
        source = case.real_kv_sources[int(edit.region[len("real_kv_sources[")])]
        row, column = divmod(edit.offset, source.row_bytes)
        index, inside = divmod(column, source.num_bytes_per_token)
        place = f"{edit.region}, row {row}, byte {column}"
        if index < source.page_size:
            place += f" (byte {inside} of slot {row * source.page_size + index})"
    return f"flip mask 0x{edit.mask:02x} at {place}"


def _write_table(step: WriteStep) -> Table:
    table = Table("request", "seed slot", "entry", "slot", "token", "position")
    expected = step.expected_input_tokens, step.expected_input_positions
    if step.enable_write_input_assert:
        table.add_column("expected token")
        table.add_column("expected position")
    columns = [step.out_cache_loc, step.input_ids, step.positions]
    columns += [column for column in expected if column is not None]
    for request, seed, entry in _write_entries(step):
        values = [_value_text(column, entry) for column in columns]
        table.add_row(str(request), str(seed), str(entry), *values[: len(table.columns) - 3])
        if table.row_count >= MOST_ROWS:
            break
    return table


def _write_entries(step: WriteStep) -> Iterator[tuple[int, int, int]]:
    capacity = step.write_seed_slot_indices.length
    for request in range(max(0, min(step.write_num_valid_reqs, capacity))):
        seed = at(step.write_seed_slot_indices, request)
        for entry in entries_of(step, request):
            yield request, seed, entry


def _verify_table(step: VerifyStep) -> Table:
    table = Table("entry", "slot", "predecessor", "expected token", "expected position")
    active = max(0, min(step.verify_num_valid, step.verify_slot_indices.length))
    columns = (
        step.verify_slot_indices,
        step.verify_prev_slot_indices,
        step.verify_expected_tokens,
        step.verify_expected_positions,
    )
    for entry in range(min(active, MOST_ROWS)):
        table.add_row(str(entry), *(_value_text(column, entry) for column in columns))
    return table


def _value_text(column: Column, index: int) -> str:
    return str(at(column, index)) if index < column.length else "-"
