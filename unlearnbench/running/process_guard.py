"""Isolates methods from each other: what one changes in its process is restored and reported."""

from __future__ import annotations

import contextlib
import os
import random
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import psutil
import torch

# Exit code of a forked process that returned from the method instead of ending.
STRAY_COPY = 1
_WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"

_NO_MEMORY = (
    *("DefaultCPUAllocator: can't allocate memory", "DefaultCPUAllocator: not enough memory"),
    "CUDA out of memory",
)


@contextlib.contextmanager
def guarded_process(key: int, device: torch.device, deterministic: bool = False) -> Iterator[list[str]]:
    """Run a method in a seeded process state, and report what it changed in the process.

    Its standard output goes to standard error, since standard output is for tables alone.
    A process that the method forked and that returns ends here. Arguments are as for `seeded_process_state`.

    Yields:
        A list, empty until the end; then it has one line for each change.
    """
    own, children = os.getpid(), _children()
    changed: list[str] = []
    with seeded_process_state(key, device, deterministic):
        before = _snapshot(device)
        try:
            with contextlib.redirect_stdout(sys.stderr):
                yield changed
        finally:
            if os.getpid() != own:
                os._exit(STRAY_COPY)
            after = _snapshot(device)
            changed += [f"The method changed {what}, now put back." for what in before if before[what] != after[what]]
            left = _children() - children
            if left:
                changed.append(f"The method left {len(left)} processes running: {', '.join(map(str, sorted(left)))}.")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out, on a GPU or a CPU.

    Torch's CPU allocator raises a plain RuntimeError, recognised by its text.
    """
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in _NO_MEMORY)


def _snapshot(device: torch.device) -> dict[str, Any]:
    """Return what `seeded_process_state` restores, in a form that can be compared."""
    numpy = np.random.get_state(legacy=False)  # noqa: NPY002 - the global state is what is compared
    state = {
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
        state["the global random numbers of the GPU"] = torch.cuda.get_rng_state(device).numpy().tobytes()
    return state


def _folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:  # it was deleted
        return ""


def _children() -> set[int]:
    pids = set()
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if child.status() != psutil.STATUS_ZOMBIE:
                    pids.add(child.pid)
    return pids


@contextlib.contextmanager
def seeded_process_state(key: int, device: torch.device, deterministic: bool = False) -> Iterator[None]:
    """Seed the global random generators of Python, NumPy and torch; restore the process state afterwards.

    Restored are these random states, torch's default type and device, its gradient mode, number of
    threads and deterministic mode, and the current folder.

    Args:
        key: The seed, in [0, 2^63).
        device: Where the method computes; of the GPUs, only this one's random state is set and restored.
        deterministic: Let torch refuse every operation whose results may vary from call to call; its
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
        # `torch.manual_seed` would also seed GPUs whose state is not restored.
        torch.default_generator.manual_seed(key)
        if devices:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(key)
        workspace = os.environ.get(_WORKSPACE)
        if deterministic:
            # Else the order of summation in cuBLAS may vary from call to call.
            os.environ.setdefault(_WORKSPACE, ":4096:8")
            torch.use_deterministic_algorithms(True)
        try:
            yield
        finally:
            if workspace is None:
                os.environ.pop(_WORKSPACE, None)
            random.setstate(python)
            np.random.set_state(numpy)  # noqa: NPY002
            os.chdir(folder)
            torch.set_default_dtype(dtype)
            if torch.get_default_device() != place:
                torch.set_default_device(None if place.type == "cpu" else place)
            torch.set_grad_enabled(gradients)
            if torch.get_num_threads() != threads:
                torch.set_num_threads(threads)
            # Setting the mode, even to its current value, loads torch's compiler.
            if (torch.are_deterministic_algorithms_enabled(), _warns_only()) != (mode, warns):
                torch.use_deterministic_algorithms(mode, warn_only=warns)


def _warns_only() -> bool:
    return bool(torch.is_deterministic_algorithms_warn_only_enabled())
