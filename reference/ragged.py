"""Ragged arrays as flat ones: many lists of different lengths, one after another."""

from __future__ import annotations

import torch


def expand(counts: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """For lists of ``counts`` [n] elements: the list and the place in it of every element.

    Both are int64 [counts.sum()], in the order of the lists.
    """
    owner = torch.repeat_interleave(counts)
    return owner, places(owner, counts)


def places(owner: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """The place of every element in its list, where ``owner`` is sorted and ``counts`` fit it."""
    first = counts.cumsum(0).sub_(counts)
    everywhere = torch.arange(owner.shape[0], device=owner.device)
    return everywhere.sub_(first.index_select(0, owner))


def where_true(mask: torch.Tensor) -> torch.Tensor:
    """The indices, ascending, at which a 1-D mask holds."""
    return mask.nonzero().squeeze(1)
