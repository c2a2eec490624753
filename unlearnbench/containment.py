"""Keeps what a method does to its process away from the next one: what it left changed is put back, and told."""

from __future__ import annotations

import contextlib
import os
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import psutil
import torch

# A copy of the process that a method made and that came back from the method instead of ending.
STRAY_COPY = 1


@contextlib.contextmanager
def contained(seed: int, device: torch.device) -> Iterator[list[str]]:
    """Let a method use the process inside, and put back what it changed.

    Global generators are seeded on entry, so that a method which draws from them gives the same
    numbers whatever ran before. What is printed to standard output goes to standard error:
    tables alone go to standard output. A process that was forked inside and comes back ends here.

    Args:
        seed: What global generators start from.
        device: Where the method computes.

    Yields:
        A list that is empty until the end; then it has a line for each thing that was changed.
    """
    own, folder = os.getpid(), _folder()
    before = {setting: get() for setting, (get, _) in _SETTINGS.items()}
    states = {name: get() for name, (get, _, _) in _generators(device).items()}
    seeded = {}
    for name, (get, _, start) in _generators(device).items():
        start(seed)
        seeded[name] = get()
    children = _children()
    changed: list[str] = []
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield changed
    finally:
        if os.getpid() != own:
            os._exit(STRAY_COPY)
        for name, (get, put_back, _) in _generators(device).items():
            if not _same(get(), seeded[name]):
                changed.append(f"The method used {name}: it was seeded for this cell alone and is put back.")
            put_back(states[name])
        for setting, (get, put_back_setting) in _SETTINGS.items():
            if get() != before[setting]:
                changed.append(f"The method changed {setting}: it is put back.")
                put_back_setting(before[setting])
        if folder and _folder() != folder:
            changed.append("The method changed the current folder: it is put back.")
            os.chdir(folder)
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


_NO_MEMORY = (
    "DefaultCPUAllocator: can't allocate memory",
    "DefaultCPUAllocator: not enough memory",
    "CUDA out of memory",
)

_SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[Any], None]]] = {
    "torch's default type": (torch.get_default_dtype, torch.set_default_dtype),
    "whether torch keeps gradients": (torch.is_grad_enabled, lambda value: torch._C._set_grad_enabled(value)),
    "torch's number of threads": (torch.get_num_threads, torch.set_num_threads),
    "whether torch is deterministic": (
        torch.are_deterministic_algorithms_enabled,
        lambda value: torch.use_deterministic_algorithms(value),
    ),
}

Generator = tuple[Callable[[], Any], Callable[[Any], None], Callable[[int], Any]]


def _generators(device: torch.device) -> dict[str, Generator]:
    found: dict[str, Generator] = {
        "Python's global generator": (random.getstate, random.setstate, random.seed),
        "numpy's global generator": (_numpy_state, np.random.set_state, _seed_numpy),
        # `torch.manual_seed` would seed every GPU too, also those whose state is not put back.
        "torch's global generator": (torch.get_rng_state, torch.set_rng_state, torch.default_generator.manual_seed),
    }
    if device.type == "cuda":
        found["torch's global generator of the GPU"] = (
            lambda: torch.cuda.get_rng_state(device),
            lambda state: torch.cuda.set_rng_state(state, device),
            lambda seed: _seed_gpu(seed, device),
        )
    return found


def _numpy_state() -> Any:
    return np.random.get_state(legacy=False)  # noqa: NPY002 - as below


def _seed_numpy(seed: int) -> None:
    np.random.seed(seed % 2**32)  # noqa: NPY002 - it is this generator, which methods may use, that is seeded


def _seed_gpu(seed: int, device: torch.device) -> None:
    with torch.cuda.device(device):
        torch.cuda.manual_seed(seed)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    return repr(_listed(one)) == repr(_listed(other))


def _listed(state: Any) -> Any:
    if isinstance(state, dict):
        return {key: _listed(value) for key, value in state.items()}
    return state.tolist() if isinstance(state, np.ndarray) else state


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
