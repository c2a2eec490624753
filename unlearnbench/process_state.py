"""What a process holds for all its parts: global chance, modes of torch, the current folder.

A method of a plugin may read any of it and change any of it. A cell that did either would depend
on the cells before it, or change those after it.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

# Without it cuBLAS may choose another order of summation from call to call.
_CUBLAS = "CUBLAS_WORKSPACE_CONFIG"


@contextmanager
def own_process_state(key: int, device: torch.device, deterministic: bool = False) -> Iterator[None]:
    """Start the global random numbers of Python, NumPy and torch from a key; put everything back afterwards.

    Put back are these random states, torch's default type and device, its gradient mode, number of
    threads and deterministic mode, and the current folder.

    Args:
        key: In [0, 2^63).
        device: Where is computed: a GPU's random state is set and put back, those of others are not touched.
        deterministic: Let torch refuse every operation that may give other bits from call to call; its
            error names the operation.
    """
    devices = [device] if device.type == "cuda" else []
    python, folder = random.getstate(), os.getcwd()
    numpy = np.random.get_state()  # noqa: NPY002 - the global state is what is guarded
    dtype, place = torch.get_default_dtype(), torch.get_default_device()
    gradients, threads = torch.is_grad_enabled(), torch.get_num_threads()
    mode, warns = torch.are_deterministic_algorithms_enabled(), _warns_only()
    with torch.random.fork_rng(devices=devices, device_type="cuda"):
        random.seed(key)
        np.random.seed(key % 2**32)  # noqa: NPY002
        # `torch.manual_seed` would seed every GPU too, also those whose state is not put back.
        torch.default_generator.manual_seed(key)
        if devices:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(key)
        if deterministic:
            os.environ.setdefault(_CUBLAS, ":4096:8")
            torch.use_deterministic_algorithms(True)
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)  # noqa: NPY002
            os.chdir(folder)
            torch.set_default_dtype(dtype)
            if torch.get_default_device() != place:
                torch.set_default_device(None if place.type == "cpu" else place)
            torch.set_grad_enabled(gradients)
            if torch.get_num_threads() != threads:
                torch.set_num_threads(threads)
            # Setting the mode, were it to what it is, loads torch's compiler.
            if (torch.are_deterministic_algorithms_enabled(), _warns_only()) != (mode, warns):
                torch.use_deterministic_algorithms(mode, warn_only=warns)


def _warns_only() -> bool:
    return bool(torch.is_deterministic_algorithms_warn_only_enabled())
