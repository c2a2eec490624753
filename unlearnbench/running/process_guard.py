"""Keeps what a method does to its process away from the next one: what it left changed is put back, and told."""

from __future__ import annotations

import contextlib
import os
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import psutil
import torch

# A copy of the process that a method made and that came back from the method instead of ending.
STRAY_COPY = 1

_NO_MEMORY = (
    *("DefaultCPUAllocator: can't allocate memory", "DefaultCPUAllocator: not enough memory"),
    "CUDA out of memory",
)


@contextlib.contextmanager
def guarded_process(key: int, device: torch.device, deterministic: bool = False) -> Iterator[list[str]]:
    """Let a method use the process inside, in a state of its own; tell what it has changed of it.

    What is printed to standard output goes to standard error: tables alone go to standard output.
    A process that was forked inside and comes back ends here.

    Args:
        key: What global random numbers start from: see `seeded_process_state`.
        device: Where the method computes.
        deterministic: Whether torch refuses operations that may give other bits from call to call.

    Yields:
        A list that is empty until the end; then it has a line for each thing that was changed.
    """
    own, children = os.getpid(), _children()
    changed: list[str] = []
    with seeded_process_state(key, device, deterministic):
        before = _look(device)
        try:
            with contextlib.redirect_stdout(sys.stderr):
                yield changed
        finally:
            if os.getpid() != own:
                os._exit(STRAY_COPY)
            after = _look(device)
            changed += [f"The method changed {what}: it is put back." for what in before if before[what] != after[what]]
            left = _children() - children
            if left:
                changed.append(f"The method left {len(left)} processes running: {', '.join(map(str, sorted(left)))}.")


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether memory ran out: of a GPU, of the machine, or of what an array may be.

    Torch's allocator on a CPU says so in the text of a plain RuntimeError alone.
    """
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in _NO_MEMORY)


def _look(device: torch.device) -> dict[str, Any]:
    """Give what `seeded_process_state` puts back, in a form that can be compared."""
    numpy = np.random.get_state(legacy=False)  # noqa: NPY002 - the global state is what is looked at
    found = {
        "the global random numbers of Python": random.getstate(),
        "the global random numbers of NumPy": repr(numpy["state"]["pos"]) + str(numpy["state"]["key"].tobytes()),
        "the global random numbers of torch": torch.get_rng_state().numpy().tobytes(),
        "torch's default type": torch.get_default_dtype(),
        "torch's default device": torch.get_default_device(),
        "whether torch keeps gradients": torch.is_grad_enabled(),
        "torch's number of threads": torch.get_num_threads(),
        "whether torch is deterministic": torch.are_deterministic_algorithms_enabled(),
        "the current folder": _folder(),
    }
    if device.type == "cuda":
        found["the global random numbers of the GPU"] = torch.cuda.get_rng_state(device).numpy().tobytes()
    return found


def _folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:  # it was deleted
        return ""


def _children() -> set[int]:
    found = set()
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if child.status() != psutil.STATUS_ZOMBIE:
                    found.add(child.pid)
    return found


# Without it cuBLAS may choose another order of summation from call to call.
_CUBLAS = "CUBLAS_WORKSPACE_CONFIG"


@contextmanager
def seeded_process_state(key: int, device: torch.device, deterministic: bool = False) -> Iterator[None]:
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
