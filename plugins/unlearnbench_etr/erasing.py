"""Which parameters are made smaller, and by how much (Yang et al., 2025, Erase)."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def factors(forget: list[Tensor], near: list[Tensor] | None, everywhere: list[Tensor], ratio: float) -> list[Tensor]:
    """Return what to multiply each parameter by.

    With b1 = I_all / I_request and b2 = I_all^2 / (I_request I_near), both at most 1: b1 / t1 where b1 is below a
    threshold t1, elsewhere b2 / t2 where b2 is below t2, elsewhere 1. So what matters most to the request, alone or
    together with its neighbourhood, is nearly gone, and what does not matter to it more than to all stays.

    Args:
        forget: Importance of each parameter to the request, one tensor per parameter.
        near: To its neighbourhood, of the same shapes; None: there is none, and b2 is not used.
        everywhere: To all nodes.
        ratio: Share of the parameters of each tensor below either threshold, of those that matter to some node.
    """
    first = [_over(total, own) for total, own in zip(everywhere, forget, strict=True)]
    result = [_shrunk(one, total, ratio) for one, total in zip(first, everywhere, strict=True)]
    if near is None:
        return result
    second = [one * _over(total, own) for one, total, own in zip(first, everywhere, near, strict=True)]
    shrunk = [_shrunk(one, total, ratio) for one, total in zip(second, everywhere, strict=True)]
    return [torch.where(one < 1, one, other) for one, other in zip(result, shrunk, strict=True)]


def _over(upper: Tensor, lower: Tensor) -> Tensor:
    """Divide; what is divided by zero becomes infinite, zero too."""
    return torch.where(lower > 0, upper / lower, math.inf)


def _shrunk(values: Tensor, total: Tensor, ratio: float) -> Tensor:
    """Return value / threshold below the threshold, 1 elsewhere; the threshold is a quantile, and at most 1."""
    # Networks are stored with rows that nothing uses: how many must not matter.
    counted = values[total > 0].clamp(max=1)
    count = round(ratio * len(counted))
    if count == 0:
        return torch.ones_like(values)
    # The smallest value that is not below the threshold.
    threshold = counted.kthvalue(min(count + 1, len(counted))).values
    return torch.where(values < threshold, values / threshold, 1.0)
