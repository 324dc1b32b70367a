"""Features of corrupt steps."""

from __future__ import annotations

from ..case import Case, CorruptStep, Flip
from ..grammar.corruptions import folded_bytes

_FIELDS = ("flip:token", "flip:position", "flip:prev_hash", "flip:real_kv_hash")


def corrupt_features(case: Case, step: CorruptStep, found: set[str]) -> None:
    """Add the features of one corrupt step."""
    if 0 < len(step.edits) < 4:
        found.add(f"edits:{len(step.edits)}")
    for edit in step.edits:
        if not isinstance(edit, Flip):
            found.add("swap")
        elif edit.region == "canary_buf":
            field = edit.offset % case.slot_stride_bytes // 8
            found.add(_FIELDS[field] if field < 4 else "flip:slot_padding")
        else:
            _flip_kv(case, edit, found)


def _flip_kv(case: Case, edit: Flip, found: set[str]) -> None:
    source = case.real_kv_sources[int(edit.region[len("real_kv_sources[")])]
    place, byte = divmod(edit.offset % source.row_bytes, source.num_bytes_per_token)
    folded = folded_bytes(source, case.real_kv_hash_mode)
    if place >= source.page_size:
        found.add("flip_kv:row_padding")
    elif byte >= folded:
        found.add("flip_kv:just_beyond" if byte == folded else "flip_kv:beyond")
    elif byte == 0:
        found.add("flip_kv:first")
    else:
        found.add("flip_kv:last" if byte == folded - 1 else "flip_kv:inside")
