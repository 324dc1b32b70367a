"""Features of a case's state."""

from __future__ import annotations

from bisect import bisect

from kv_canary_fuzz.reference.enums import RealKvHashMode

from ..case import Case, Source

_MODES = tuple(f"mode:{mode.name}" for mode in RealKvHashMode)
_SLOTS = ("slots:2-7", "slots:8-24", "slots:25-72", "slots:73-511", "slots:512+")
_RINGS = ("ring:none", "ring:1-4", "ring:5-31", "ring:32+")
_COUNTERS = ("counters:negative", "counters:zero", "counters:small", "counters:past_int32")
_FAR = 2**30


def state_features(case: Case, found: set[str]) -> None:
    """Add the features of what is there before the first step."""
    sources = case.real_kv_sources
    slots, ring, index = case.num_slots, case.ring_capacity, case.violation_write_index
    found.add(f"sources:{len(sources)}")
    found.add(_MODES[case.real_kv_hash_mode])
    found.add(f"stride:{case.slot_stride_bytes}")
    found.add(_SLOTS[bisect((8, 25, 73, 512), slots)])
    canary = case.canary_buf
    found.add(
        "canary_buf:seeded"
        if canary.seed is not None
        else "canary_buf:filled"
        if canary.fill
        else "canary_buf:zero"
    )
    found.add(_RINGS[bisect((1, 5, 32), ring)])
    if index == 0:
        found.add("index:zero")
    elif 0 < index < _FAR:
        found.add(
            "index:past" if index > ring else "index:end" if index >= ring - 1 else "index:inside"
        )
    elif index > 0:
        found.add("index:far")
    for counter in (case.slot_run_counter, case.kernel_run_counter):
        found.add(_COUNTERS[bisect((0, 1, 2**31), counter)])
    for source in sources:
        _source(source, case.num_slots, found)


def _source(source: Source, num_slots: int, found: set[str]) -> None:
    page, token_bytes = source.page_size, source.num_bytes_per_token
    if page == 1:
        found.add("page_size:1")
    elif page == 64:
        found.add("page_size:64")
    else:
        found.add("page_size:odd" if page & page - 1 else "page_size:power_of_2")
    if token_bytes <= 128:
        found.add("token_bytes:16-128")
    else:
        found.add("token_bytes:144-400" if token_bytes <= 400 else f"token_bytes:{token_bytes}")
    tight = source.row_bytes == page * token_bytes
    found.add("source:tight_rows" if tight else "source:row_padding")
    if source.row_gap and source.rows > 1:
        found.add("rows:apart")
        if source.row_gap >= source.row_bytes:
            found.add("rows:whole_rows_between")
    if source.read_bytes < token_bytes:
        found.add("source:short_read")
    if (source.rows - 1) * page >= num_slots:
        found.add("source:spare_rows")
    if source.content.seed is None:
        found.add("source:filled")
