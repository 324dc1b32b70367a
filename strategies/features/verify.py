"""Features of verify launches."""

from __future__ import annotations

from ..case import VerifyStep
from ..columns import occurring
from ..launches import active_count
from .write import count_class, number_classes


def verify_features(step: VerifyStep, stamped: set[int], found: set[str]) -> None:
    """Add the features of one verify launch."""
    capacity = step.verify_slot_indices.length
    active = active_count(step.verify_num_valid, capacity)
    found.add("verify_entries:" + count_class(active))
    found.add("verify_plan:full" if active == capacity else "verify_plan:tail")
    enable = step.enable
    if 0 <= enable < 2:
        found.add("verify_enable:1" if enable else "verify_enable:0")
    else:
        found.add("verify_enable:negative" if enable < 0 else "verify_enable:other")
    checked = step.check_verify_expected_token
    found.add("verify_check_token:on" if checked else "verify_check_token:off")
    if not active:
        return
    slots = occurring(step.verify_slot_indices, active)
    distinct = set(slots)
    if 0 in distinct:
        found.add("verify_slot:zero")
    if len(distinct) < active:
        found.add("verify_slot:repeated")
    if not distinct <= stamped:
        found.add("verify_slot:unstamped")
    previous = occurring(step.verify_prev_slot_indices, active)
    if 0 in previous:
        found.add("verify_predecessor:zero")
    if -1 in previous:
        found.add("verify_predecessor:-1")
    if min(previous) < -1:
        found.add("verify_predecessor:other_negative")
    if max(previous) > 0:
        found.add("verify_predecessor:slot")
    expected = occurring(step.verify_expected_tokens, active)
    number_classes("verify_expected_token:", expected, found)
    if checked and -1 in expected:
        found.add("verify_expected_token:minus_one_checked")
