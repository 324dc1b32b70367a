"""A target in huge memory: another target, given every launch spread over gigabytes.

A case stays small, and so do its reference run, its comparison and its reproducer. For the launch
alone, the slots and the rows of the sources are laid so far apart that the last begins behind
``reach`` bytes, in memory that is zero elsewhere, and the plan gets requests and entries with
nothing to do in front of its own. Afterwards what belongs to the case is taken back, and whatever
is left that is not zero was written astray.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch

from kv_canary_fuzz.reference import (
    RealKvSource,
    VerifyLaunch,
    VerifyOrWriteContext,
    WriteLaunch,
)
from kv_canary_fuzz.strategies.classify import Domain

from .memory import own_memory
from .target import Target

LARGE_PREFIX = "large:"

_PURPOSE = "large memory for a launch"


class Expanse(NamedTuple):
    """How far apart and how many. Of two rows, the second begins behind half of ``reach``.

    ``requests`` and ``entries`` are capacities that plans are widened to, in turn.
    """

    reach: int = 2**32
    requests: tuple[int, ...] = (65_535, 65_536, 70_000)
    entries: tuple[int, ...] = (1_048_576, 65_535, 65_536, 70_000)


class StrayWrite(Exception):
    """A launch wrote to memory that belongs to nobody."""


def large_target(inner: Target, expanse: Expanse | None = None) -> Target:
    """``inner`` under large launches, which are those of the valid domain."""
    large = _Large(inner, expanse or Expanse())
    return replace(
        inner,
        name=LARGE_PREFIX + inner.name,
        write=large.write,
        verify=large.verify,
        domains=frozenset({Domain.VALID}),
        streams=None,
    )


class _Large:
    def __init__(self, inner: Target, expanse: Expanse) -> None:
        self._inner = inner
        self._expanse = expanse
        self._buffers: dict[tuple[int, torch.device], torch.Tensor] = {}

    def write(self, **arguments: Any) -> None:
        launch = WriteLaunch(**arguments)
        with self._spread(launch.context) as context:
            with own_memory(_PURPOSE):
                wide = widened_write(replace(launch, context=context), self._expanse)
            self._inner.write(**wide.arguments())

    def verify(self, **arguments: Any) -> None:
        launch = VerifyLaunch(**arguments)
        with self._spread(launch.context) as context:
            with own_memory(_PURPOSE):
                wide, added = widened_verify(replace(launch, context=context), self._expanse)
            self._inner.verify(**wide.arguments())
            context.slot_run_counter.sub_((launch.plan.enable != 0).to(torch.int64), alpha=added)

    @contextmanager
    def _spread(self, context: VerifyOrWriteContext) -> Iterator[VerifyOrWriteContext]:
        """The context in huge memory; what is done to it is done to the given one at the end.

        Raises StrayWrite at the end where other memory was written to.
        """
        narrow = [context.canary_buf]
        sources = []
        for source in map(_in_rows, context.real_kv_sources):
            narrow.append(source.tensor)
            sources.append(source)
        with own_memory(_PURPOSE):
            wide = [self._rows(place, tensor) for place, tensor in enumerate(narrow)]
        inside = [far[:, : near.size(1)] for far, near in zip(wide, narrow, strict=True)]
        for part, near in zip(inside, narrow, strict=True):
            part.copy_(near)
        try:
            yield replace(
                context,
                canary_buf=wide[0],
                real_kv_sources=tuple(
                    replace(source, tensor=far)
                    for source, far in zip(sources, wide[1:], strict=True)
                ),
            )
        finally:
            for part, near in zip(inside, narrow, strict=True):
                near.copy_(part)
                part.zero_()
        with own_memory(_PURPOSE):
            self._require_zeros(context.canary_buf.device, len(narrow))

    def _rows(self, place: int, narrow: torch.Tensor) -> torch.Tensor:
        """Zeroed rows, as many as ``narrow`` has and at least as wide, far apart."""
        rows, width = narrow.shape
        unit = 8 if place == 0 else 16
        step = width
        if rows > 1:
            reach = self._expanse.reach // (2 if rows == 2 else 1)
            step = max(width, -(-(reach + 1) // (rows - 1) // unit) * unit + unit)
        key = place, narrow.device
        buffer = self._buffers.get(key)
        if buffer is None or buffer.numel() < rows * step:
            usual = 3 * (self._expanse.reach // 2 + 64)  # what three rows take, the most of any
            buffer = _zeros(-(-max(rows * step, usual) // 8) * 8, narrow.device)
            self._buffers[key] = buffer
        return buffer[: rows * step].view(rows, step)

    def _require_zeros(self, device: torch.device, count: int) -> None:
        for place in range(count):
            words = self._buffers[place, device].view(torch.int64)
            if bool(words.count_nonzero()):
                first = int(words.nonzero()[0])
                words.zero_()
                name = "canary_buf" if place == 0 else f"real_kv_sources[{place - 1}].tensor"
                raise StrayWrite(
                    f"{name}: bytes {8 * first} to {8 * first + 7} belong to nobody and changed"
                )


def _zeros(size: int, device: torch.device) -> torch.Tensor:
    """Zeroed bytes; on the CPU they take memory only where they are written to."""
    if device.type == "cpu":
        return torch.from_numpy(np.zeros(size, np.uint8))
    return torch.zeros(size, dtype=torch.uint8, device=device)


def _in_rows(source: RealKvSource) -> RealKvSource:
    """The source with a row for each slot where all of them lie in one row."""
    tensor, width = source.tensor, source.num_bytes_per_token
    if tensor.size(0) > 1 or source.page_size == 1:
        return source
    slots = tensor[0, : source.page_size * width].view(source.page_size, width)
    return replace(source, tensor=slots, page_size=1)


def widened_write(launch: WriteLaunch, expanse: Expanse) -> WriteLaunch:
    """The launch with more requests in front, which stamp nothing: empty, or all entries skipped.

    What is done is a function of the launch's shapes; about a third stay as they are.
    """
    capacity, tokens = launch.plan.write_seed_slot_indices.size(0), launch.input_ids.size(0)
    turn, of = divmod(capacity + tokens + launch.context.canary_buf.size(0), 3)
    if of == 2:
        return launch
    if of == 1:
        requests, skipped = 1, max(0, expanse.entries[0] - tokens)
    else:
        requests = max(0, expanse.requests[turn % len(expanse.requests)] - capacity)
        skipped = 0
    plan, offsets = launch.plan, launch.plan.write_offsets
    starts = offsets[:1].expand(requests).clone() + skipped
    starts[:1] = 0
    wide = replace(
        plan,
        write_offsets=torch.cat([starts, offsets + skipped]),
        write_seed_slot_indices=_behind(plan.write_seed_slot_indices, requests, -1),
        write_num_valid_reqs=plan.write_num_valid_reqs + requests,
    )
    loose = torch.arange(skipped + tokens, device=offsets.device) < offsets[:1] + skipped
    slots = _behind(launch.out_cache_loc, skipped, -1)
    tokens_expected, positions_expected = (
        None if column is None else _behind(column, skipped, -1)
        for column in (launch.expected_input_tokens, launch.expected_input_positions)
    )
    return replace(
        launch,
        plan=wide,
        input_ids=_behind(launch.input_ids, skipped, -1),
        positions=_behind(launch.positions, skipped, -1),
        out_cache_loc=slots.masked_fill(loose, -1) if requests else slots,
        expected_input_tokens=tokens_expected,
        expected_input_positions=positions_expected,
    )


def widened_verify(launch: VerifyLaunch, expanse: Expanse) -> tuple[VerifyLaunch, int]:
    """The launch with entries for slot 0 in front, which are counted and skipped; how many."""
    plan = launch.plan
    capacity = plan.verify_slot_indices.size(0)
    turn = capacity + launch.context.canary_buf.size(0)
    added = max(0, expanse.entries[turn % len(expanse.entries)] - capacity)
    wide = replace(
        plan,
        verify_slot_indices=_behind(plan.verify_slot_indices, added, 0),
        verify_expected_tokens=_behind(plan.verify_expected_tokens, added, 0),
        verify_expected_positions=_behind(plan.verify_expected_positions, added, 0),
        verify_prev_slot_indices=_behind(plan.verify_prev_slot_indices, added, -1),
        verify_num_valid=plan.verify_num_valid + added,
    )
    return replace(launch, plan=wide), added


def _behind(column: torch.Tensor, count: int, value: int) -> torch.Tensor:
    return torch.cat([column.new_full((count,), value), column])
