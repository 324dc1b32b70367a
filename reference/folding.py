"""Real-KV hashes of many entries at once (contract, section 3).

A fold is serial in the words of a token, so the speed is in how many tokens share each operation:
every pair of an entry and a source of the batch is one lane, all lanes take a word at each step,
and lanes are sorted by length so that those still folding are always the first ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from .hashing import splitmix64_
from .ragged import expand
from .sources import SourceTable
from .table import LaunchTable

# Sized for the caches of one core: a block's accumulators, and the words fetched for it at once.
_BLOCK_LANES = 8192
_FETCH_WORDS = 32768


def real_kv_hashes(table: LaunchTable, launch: torch.Tensor, slot: torch.Tensor) -> torch.Tensor:
    """The hash, int64 [k], of the KV bytes now at ``slot[k]`` in the sources of ``launch[k]``.

    ``launch`` is sorted; every slot lies within its launch's canary buffer.
    """
    total = torch.zeros_like(slot)
    if not table.sources or not len(slot):
        return total
    num_sources = table.of("num_sources", launch)
    folds = slot.new_zeros((_most_sources(table), len(slot)))
    entries = torch.bincount(launch, minlength=len(table["num_sources"]))
    for sources in table.sources:
        _fold_into(folds, sources, entries, slot)
    scratch = torch.empty_like(total)
    for ordinal, fold in enumerate(folds):
        step = fold.bitwise_xor_(total)
        splitmix64_(step, scratch)
        total = torch.where(num_sources > ordinal, step, total)
    return total


def _most_sources(table: LaunchTable) -> int:
    return int(table["num_sources"].max())


def _fold_into(
    folds: torch.Tensor, sources: SourceTable, entries: torch.Tensor, slot: torch.Tensor
) -> None:
    """Store the fold of every lane at ``folds[ordinal, entry]``; ``entries`` is [launches]."""
    lanes_of = entries.index_select(0, sources.launch)
    source, place = expand(lanes_of)
    first_entry = entries.cumsum(0).sub_(entries).index_select(0, sources.launch)
    entry = first_entry.index_select(0, source).add_(place)
    offset = _token_offsets(sources, source, slot.index_select(0, entry))
    accumulators = torch.zeros_like(offset)
    groups = _groups(sources.fold_words, lanes_of.tolist())
    for start in range(0, len(offset), _BLOCK_LANES):
        end = start + _BLOCK_LANES
        _fold_block(sources.flat, offset[start:end], accumulators[start:end], groups, start)
    target = sources.ordinal.index_select(0, source).mul_(folds.shape[1]).add_(entry)
    folds.view(-1).scatter_(0, target, accumulators)


def _token_offsets(sources: SourceTable, source: torch.Tensor, slot: torch.Tensor) -> torch.Tensor:
    """Where in the flat tensor the token at ``slot[k]`` of ``source[k]`` begins."""
    page_size = sources.page_size.index_select(0, source)
    row = slot.div(page_size, rounding_mode="floor")
    column = slot.sub(row * page_size)
    column.mul_(sources.token_words.index_select(0, source))
    row.mul_(sources.row_step.index_select(0, source))
    return row.add_(column).add_(sources.offset.index_select(0, source))


Groups = list[tuple[int, int, int]]


def _groups(lengths: Sequence[int], counts: Sequence[int]) -> Groups:
    """Lanes of one length, shortest first: the length, the first lane, the lane after the last."""
    groups: Groups = []
    end = 0
    for length, count in zip(lengths, counts, strict=True):
        if groups and groups[-1][0] == length:
            groups[-1] = (length, groups[-1][1], end + count)
        else:
            groups.append((length, end, end + count))
        end += count
    return groups[::-1]


def _fold_block(
    flat: torch.Tensor,
    offset: torch.Tensor,
    accumulators: torch.Tensor,
    groups: Groups,
    start: int,
) -> None:
    scratch = torch.empty_like(accumulators)
    for first, last, lanes in _segments(groups, start, start + len(offset)):
        folding, spare, begin = accumulators[:lanes], scratch[:lanes], offset[:lanes]
        for words in _fetch(flat, begin, first, last):
            folding.bitwise_xor_(words)
            splitmix64_(folding, spare)


def _segments(groups: Groups, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """For lanes start..end: runs of words, first to last, that the same leading lanes fold."""
    word = 0
    for length, group_start, group_end in groups:
        lanes = min(group_end, end) - start
        if group_start >= end or group_start == group_end:
            continue
        if lanes <= 0:
            break
        if length > word:
            yield word, length, lanes
            word = length


def _fetch(
    flat: torch.Tensor, offset: torch.Tensor, first: int, last: int
) -> Iterator[torch.Tensor]:
    """Word ``first`` of every token that starts at ``offset``, then the next, up to ``last``."""
    lanes = len(offset)
    chunk = max(_FETCH_WORDS // lanes, 1)
    for start in range(first, last, chunk):
        steps = torch.arange(start, min(start + chunk, last), device=offset.device)
        index = steps.unsqueeze(1) + offset
        yield from flat.index_select(0, index.view(-1)).view(index.shape).unbind(0)
