"""The device methods compute on."""

from __future__ import annotations

import re

import torch

from unlearnbench.errors import UsageError


def choose_device(name: str, elsewhere: bool = False) -> torch.device:
    """Choose the device to compute on: `auto`, `cpu`, `cuda` or `cuda:INDEX`.

    If cells are computed elsewhere, it may be a device that only other machines have.

    Raises:
        UsageError: The device does not exist here; the message lists those that do.
    """
    present = ["cpu", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]
    if name == "auto":
        return torch.device(present[1] if len(present) > 1 else "cpu")
    wanted = "cuda:0" if name == "cuda" else name
    if wanted not in present and not (elsewhere and re.fullmatch(r"cuda:[0-9]{1,3}", wanted)):
        raise UsageError(f"`device` {name}: there is no such device here.", f"Present: {', '.join(present)}.")
    return torch.device(wanted)
