"""Which parameters are made smaller, and by how much (Yang et al., 2025, Erase)."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def factors(forget: list[Tensor], near: list[Tensor] | None, everywhere: list[Tensor], ratio: float) -> list[Tensor]:
    """Return what to multiply each parameter by.

    With b1 = I_all / I_request and b2 = I_all^2 / (I_request I_near): b1 / t1 where b1 is below a threshold t1,
    elsewhere b2 / t2 where b2 is below t2, elsewhere 1. So what matters most to the request, alone or together with
    its neighbourhood, is nearly gone.

    Args:
        forget: Importance of each parameter to the request, one tensor per parameter.
        near: To its neighbourhood, of the same shapes; None: there is none, and b2 is not used.
        everywhere: To all nodes.
        ratio: Share of the parameters below either threshold, of those that matter to the sets at all.
    """
    first = [_over(total, own) for total, own in zip(everywhere, forget, strict=True)]
    result = _shrunk(first, ratio)
    if near is None:
        return result
    second = [one * _over(total, own) for one, total, own in zip(first, everywhere, near, strict=True)]
    return [torch.where(one < 1, one, other) for one, other in zip(result, _shrunk(second, ratio), strict=True)]


def _over(upper: Tensor, lower: Tensor) -> Tensor:
    """Divide; what is divided by zero becomes infinite, zero too."""
    return torch.where(lower > 0, upper / lower, math.inf)


def _shrunk(values: list[Tensor], ratio: float) -> list[Tensor]:
    """Return value / threshold below the threshold, 1 elsewhere; the threshold is the quantile of the finite values."""
    flat = torch.cat([value.reshape(-1) for value in values])
    finite = flat[flat.isfinite()]
    count = round(ratio * len(finite))
    if count == 0:
        return [torch.ones_like(value) for value in values]
    # The smallest value that is not below the threshold.
    threshold = finite.kthvalue(min(count + 1, len(finite))).values
    return [torch.where(value < threshold, value / threshold, 1.0) for value in values]
