"""Dropout with a random stream per network, so that it does not depend on the other networks of a stack."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

_LEVELS = 2**16
_PER_WORD = 4


class Noise:
    """One stream of random bits per network.

    Args:
        keys: The seed of each network's stream.
        device: The device on which bits are drawn.
    """

    def __init__(self, keys: Sequence[int], device: torch.device) -> None:
        self.keys = list(keys)
        self.device = device
        self.step = 0
        self._generators = [torch.Generator(device).manual_seed(key) for key in keys]

    def keep(self, sizes: Sequence[int], width: int, rate: float) -> Tensor:
        """Draw a dropout mask: float32 [sum(sizes), width], 1 with probability 1 - rate, else 0.

        The mask is made of random bits, 16 per entry, because drawing each entry as a Bernoulli
        variable takes ten times as long; the rate is therefore rounded to 1/65536.

        Args:
            sizes: Rows of each network, in the order of `keys`.
            width: Columns.
            rate: Probability to drop an entry.
        """
        words = -(-width // _PER_WORD)
        bits = torch.empty(sum(sizes), words, dtype=torch.int64, device=self.device)
        for rows, generator in zip(bits.split(list(sizes)), self._generators, strict=True):
            # Without an explicit range the sign bit would never be set.
            rows.random_(-(2**63), None, generator=generator)
        threshold = round(rate * _LEVELS) - _LEVELS // 2
        # Comparing into floats is one fast pass; via bool it takes eight times as long.
        mask = torch.empty(len(bits), width, device=self.device)
        return torch.ge(bits.view(torch.int16)[:, :width], threshold, out=mask)
