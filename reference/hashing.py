"""Section 3 of the kv-canary contract over tensors: unsigned 64-bit arithmetic held in int64.

Addition and multiplication wrap alike for both; a shift to the right must not copy the sign, so it
is masked. The functions whose name ends in ``_`` work in place and take a scratch tensor of the
same shape: folding applies them thousands of times to tensors that stay in cache.
"""

from __future__ import annotations

import torch

from . import consts

# 0-dim tensors: an operation takes them faster than Python numbers, and from the CPU to any device.
_SHIFTS = tuple(
    (torch.tensor(shift), torch.tensor((1 << (64 - shift)) - 1)) for shift in (30, 27, 31)
)
_FACTORS = (torch.tensor(0xBF58476D1CE4E5B9 - 2**64), torch.tensor(0x94D049BB133111EB - 2**64))


def splitmix64_(x: torch.Tensor, scratch: torch.Tensor) -> None:
    """Replace every x by splitmix64(x), the finaliser alone."""
    (shift_1, mask_1), (shift_2, mask_2), (shift_3, mask_3) = _SHIFTS
    factor_1, factor_2 = _FACTORS
    torch.bitwise_right_shift(x, shift_1, out=scratch)
    scratch.bitwise_and_(mask_1)
    x.bitwise_xor_(scratch).mul_(factor_1)
    torch.bitwise_right_shift(x, shift_2, out=scratch)
    scratch.bitwise_and_(mask_2)
    x.bitwise_xor_(scratch).mul_(factor_2)
    torch.bitwise_right_shift(x, shift_3, out=scratch)
    scratch.bitwise_and_(mask_3)
    x.bitwise_xor_(scratch)


def mix3_(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, scratch: torch.Tensor) -> None:
    """Replace every a by mix3(a, b, c)."""
    splitmix64_(a, scratch)
    a.bitwise_xor_(b)
    splitmix64_(a, scratch)
    a.bitwise_xor_(c)
    splitmix64_(a, scratch)


def splitmix64(x: torch.Tensor) -> torch.Tensor:
    """splitmix64 of every x, the finaliser alone; int64 of the shape of x."""
    result = x.clone()
    splitmix64_(result, torch.empty_like(result))
    return result


def mix3(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    """The link of slots that store (prev_hash a, token b, position c); int64 of their shape."""
    result = a.clone()
    mix3_(result, b, c, torch.empty_like(result))
    return result


CHAIN_HEAD = int(splitmix64(torch.tensor(consts.CANARY_CHAIN_ANCHOR - 2**64)))
"""What the first slot of a chain stores as prev_hash, as int64."""
