"""Speed, measured: the campaign's fast path by stage, and the torch reference alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import median
from time import perf_counter

import torch

from kv_canary_fuzz.reference import RealKvHashMode, WriteLaunch, run_write_batch
from kv_canary_fuzz.strategies.case import Case, Column, Source, WriteStep
from kv_canary_fuzz.strategies.content import Content

from ..campaign.settings import WIDE_BATCH
from ..execution.arena import allocate, fill, lay_out_batch
from ..execution.binding import Binder
from ..execution.fuzzer import Fuzzer, StageSeconds, count_features
from ..execution.garbage import rare_collections
from ..execution.tensors import Memory
from ..targets.target import Target

ROUNDS = 5

REQUESTS = 8
TOKENS_PER_REQUEST = 256
TOKEN_BYTES = 128
SOURCES = 4


@rare_collections()
def fast_path(target: Target, *, seed: int, batches: int) -> list[str]:
    """Cases per second on one core in the valid domain, and where the time goes.

    Every batch is of fresh cases, so nothing is measured twice.
    """
    torch.set_num_threads(1)
    fuzzer = Fuzzer(target)
    fuzzer.failing(fuzzer.generate(seed, range(WIDE_BATCH), "valid"))
    fuzzer.stages = StageSeconds()
    rates, bytes_seen = [], 0
    for number in range(1, batches + 1):
        started = perf_counter()
        cases = fuzzer.generate(
            seed, range(number * WIDE_BATCH, (number + 1) * WIDE_BATCH), "valid"
        )
        fuzzer.failing(cases)
        count_features(cases)
        rates.append(WIDE_BATCH / (perf_counter() - started))
        bytes_seen += lay_out_batch(cases).size
    total = batches * WIDE_BATCH
    lines = [
        f"{target.name} against torch: median {median(rates):,.0f} cases/s on one core "
        f"(from {min(rates):,.0f} to {max(rates):,.0f} over {batches} batches of {WIDE_BATCH}; "
        f"{bytes_seen / total / 1024:.1f} KiB a case)"
    ]
    for stage, seconds in fuzzer.stages._asdict().items():
        lines.append(f"  {stage:<10} {seconds / total * 1e6:6.0f} us a case")
    return lines


def reference_speed() -> list[str]:
    """Entries per second of the torch reference's write: one launch, and 64 of them at once."""
    torch.set_num_threads(1)
    lines = []
    for count in (1, 64):
        work = partial(run_write_batch, _long_launches(count))
        seconds = median(_timed(work) for _ in range(ROUNDS))
        entries = count * REQUESTS * TOKENS_PER_REQUEST
        lines.append(f"torch reference, {count} x ({_shape()}): {entries / seconds:,.0f} entries/s")
    return lines


def _shape() -> str:
    return f"{REQUESTS} x {TOKENS_PER_REQUEST} tokens, {SOURCES} x {TOKEN_BYTES} B, ALL"


def _timed(work: Callable[[], object]) -> float:
    started = perf_counter()
    work()
    return perf_counter() - started


def _long_launches(count: int) -> list[WriteLaunch]:
    batch = lay_out_batch([_long_case(seed) for seed in range(count)])
    buffer = allocate(batch.size)
    fill(batch, buffer)
    memory = Memory(buffer, "cpu")
    launches = []
    for case, layout, base in zip(batch.cases, batch.layouts, batch.bases, strict=True):
        launch = Binder(case, layout, memory, base).launch(0)
        assert isinstance(launch, WriteLaunch)
        launches.append(launch)
    return launches


def _long_case(seed: int) -> Case:
    tokens = REQUESTS * TOKENS_PER_REQUEST
    offsets = tuple(range(0, tokens + 1, TOKENS_PER_REQUEST))
    entries = Column(values=tuple(range(tokens)), length=tokens)
    sources = tuple(
        Source(
            rows=tokens,
            row_bytes=TOKEN_BYTES,
            page_size=1,
            num_bytes_per_token=TOKEN_BYTES,
            read_bytes=TOKEN_BYTES,
            content=Content(seed=seed * SOURCES + index),
        )
        for index in range(SOURCES)
    )
    step = WriteStep(
        write_offsets=Column(values=offsets, length=len(offsets)),
        write_seed_slot_indices=Column(length=REQUESTS, fill=-1),
        write_num_valid_reqs=REQUESTS,
        input_ids=entries,
        positions=entries,
        out_cache_loc=entries,
    )
    return Case(
        num_slots=tokens,
        real_kv_sources=sources,
        real_kv_hash_mode=RealKvHashMode.ALL,
        steps=(step,),
    )
