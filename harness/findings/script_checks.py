"""What a standalone script compares after the launch: the first cause alone."""

from __future__ import annotations

import re
from typing import NamedTuple

from kv_canary_fuzz.reference import consts
from kv_canary_fuzz.strategies.case import Case

from ..execution.arena import Bytes
from ..execution.layout import Layout
from ..judging.comparison import ring_rows
from ..judging.differences import FIELDS
from ..judging.mismatch import Mismatch, Rank
from ..judging.verdict import Verdict
from .script_faults import tensor_place

_GUARD_BYTES = 4096
_FILL = 0xA5
_STEP_REGION = re.compile(r"steps\[(\d+)\]\.(.+)")


class Check(NamedTuple):
    """The case whose state the script builds, and lines before its steps and after them."""

    case: Case
    before: tuple[str, ...]
    after: tuple[str, ...]


def check_of(case: Case, verdict: Verdict | None) -> Check | None:
    """The check for a verdict; None where a launch cannot show it. No verdict: never returns."""
    if verdict is None:
        text = "the launch returned: the process did not die"
        return Check(case, (), (f"print({text!r})", "raise SystemExit(0)"))
    cause = verdict.mismatches[0]
    if cause.rank is Rank.EXCEPTION:
        return _compared(
            case, cause.place, "outcome", "None" if cause.expected == "none" else cause.expected
        )
    if cause.rank is Rank.STAMP:
        return _stamp_check(case, cause)
    if cause.rank is Rank.ROW:
        return _row_check(case, verdict, cause)
    if cause.rank is Rank.GUARD:
        return _guard_check(case, verdict.layout, cause)
    if cause.rank is Rank.INPUT:
        place = _region_place(cause.region)
        found = f'"0x%02x" % {place}.view(-1).view(torch.uint8)[{cause.offset}].item()'
        return _compared(case, cause.place, found, cause.expected)
    found = f'str(state["{cause.region}"].item())'
    return _compared(case, cause.place, found, cause.expected)


def _compared(
    case: Case, place: str, found: str, expected: str, before: tuple[str, ...] = ()
) -> Check:
    return Check(
        case,
        before,
        (
            f"expected, found = {expected!r}, {found}",
            f'print({place + ": expected"!r}, expected, "- found", found)',
            "raise SystemExit(found != expected)",
        ),
    )


def _stamp_check(case: Case, cause: Mismatch) -> Check:
    slot, inside = divmod(cause.offset, case.slot_stride_bytes)
    end = inside + 8 if inside < consts.CANARY_SLOT_BYTES else case.slot_stride_bytes
    data = f'bytes(state["canary_buf"][{slot}, {inside}:{end}].tolist())'
    if inside >= consts.CANARY_SLOT_BYTES:
        return _compared(case, cause.place, f"{data}.hex()", cause.expected)
    if FIELDS[inside // 8].endswith("hash"):
        found = f'"0x%016x" % int.from_bytes({data}, "little")'
    else:
        found = f'str(int.from_bytes({data}, "little", signed=True))'
    return _compared(case, cause.place, found, cause.expected)


def _row_check(case: Case, verdict: Verdict, cause: Mismatch) -> Check | None:
    """Whole rows, in any order."""
    if cause.region != "violation_ring":
        return None
    stored = 'state["violation_ring"][:max(0, state["violation_write_index"].item())]'
    return Check(
        case,
        (),
        (
            f"expected = {stored_rows(verdict, verdict.expected)}",
            f"found = sorted({stored}.tolist())",
            'print("violation rows: expected", expected, "- found", found)',
            "raise SystemExit(found != expected)",
        ),
    )


def stored_rows(verdict: Verdict, side: Bytes) -> list[list[int]]:
    """The rows in the ring before its write index, sorted."""
    index = verdict.layout.regions["violation_write_index"]
    end = int(side[index.offset : index.end].view("<i4")[0])
    ring = verdict.layout.regions["violation_ring"]
    return sorted(ring_rows(side, ring.offset, ring.size)[: max(0, end)].tolist())


def _guard_check(case: Case, layout: Layout, cause: Mismatch) -> Check | None:
    """The tensor before the guard in a buffer of its own, with room to spill on either side."""
    before = [name for name, region in layout.regions.items() if region.end <= cause.offset]
    name = before[-1] if before else "canary_buf"
    if _STEP_REGION.fullmatch(name):
        return None
    place = _region_place(name)
    size = layout.regions[name].size
    room = f"GUARD[{_GUARD_BYTES}:{_GUARD_BYTES + size}]"
    bound = (
        f"GUARD = torch.full(({size + 2 * _GUARD_BYTES},), {_FILL}, dtype=torch.uint8, "
        "device=DEVICE)",
        f"{room} = {place}.view(-1).view(torch.uint8)",
        f"{place} = {room}.view({place}.dtype).view({place}.shape)",
    )
    found = f"str((GUARD != {_FILL}).sum().item() - ({room} != {_FILL}).sum().item())"
    return _compared(case, f"bytes written outside of {name}", found, "0", bound)


def _region_place(region: str) -> str:
    step = _STEP_REGION.fullmatch(region)
    if step is not None:
        return tensor_place(f"L{step[1]}", step[2])
    name, _, rest = region.partition("[")
    return f'state["{name}"]' + (f"[{rest}" if rest else "")
