"""The running hashes of many chains at once (contract, section 4)."""

from __future__ import annotations

import torch

from .hashing import mix3_


def running_hashes(
    head: torch.Tensor,
    length: torch.Tensor,
    chain: torch.Tensor,
    place: torch.Tensor,
    token: torch.Tensor,
    position: torch.Tensor,
) -> torch.Tensor:
    """What each entry stores as prev_hash, int64 [entries].

    ``head`` and ``length`` are [chains]: the hash that a chain's first entry stores, and how many
    entries it has. ``chain`` and ``place`` say where an entry stands; its token and position go
    into the hash of its successor. The walk goes from place to place for all chains together, the
    longest first, so that the chains that reach a place are always the leading ones.
    """
    if not len(chain):
        return torch.empty_like(token)
    order = torch.argsort(length, descending=True, stable=True)
    rank = torch.empty_like(order)
    rank[order] = torch.arange(len(order), device=order.device)
    reaching = torch.bincount(place)
    first = reaching.cumsum(0).sub_(reaching)
    seat = first.index_select(0, place).add_(rank.index_select(0, chain))
    walk = torch.empty((3, len(chain)), dtype=torch.int64, device=head.device)
    running, tokens, positions = walk.unbind(0)
    tokens.scatter_(0, seat, token)
    positions.scatter_(0, seat, position)
    counts = reaching.tolist()
    running[: counts[0]] = head.index_select(0, order[: counts[0]])
    scratch = torch.empty_like(running[: counts[0]])
    steps = torch.split_with_sizes(walk, counts, dim=1)
    for here, after, count in zip(steps, steps[1:], counts[1:], strict=False):
        following, link_token, link_position = after[0], here[1, :count], here[2, :count]
        following.copy_(here[0, :count])
        mix3_(following, link_token, link_position, scratch[:count])
    return running.index_select(0, seat)
