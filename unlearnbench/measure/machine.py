"""What a cell ran on: a description, and an identity made of what does not change."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
from pathlib import Path
from typing import Any

import psutil
import torch

from unlearnbench.measure.nvml import Nvml

GIB = float(2**30)
ID_DIGITS = 6
# What the identity of a machine is made of, and what else is told of it.
STABLE = ("cpu", "cores", "memory_gib", "gpus", "os", "architecture")
TOLD = ("id", *STABLE, "usable_cores", "os_release", "python", "blas", "torch_threads")


def describe_machine(nvml: Nvml | None = None) -> dict[str, Any]:
    """Describe this machine and how torch computes on it. No user name, host name or path.

    Args:
        nvml: The session with the GPU driver; None opens one.

    Returns:
        `{"id", "cpu", "cores", "usable_cores", "memory_gib", "gpus", "os", "os_release",
        "architecture", "python", "blas", "torch_threads"}`.
    """
    facts = _stable_facts(Nvml() if nvml is None else nvml)
    return {
        "id": machine_id(facts),
        **facts,
        "usable_cores": usable_cores(),
        "os_release": platform.release(),
        "python": platform.python_version(),
        "blas": blas_name(torch.__config__.show()),
        "torch_threads": torch.get_num_threads(),
    }


def machine_id(facts: dict[str, Any]) -> str:
    """Name a machine by its stable facts: `m-` and six hexadecimal digits.

    Args:
        facts: CPU, cores, memory, GPUs, operating system and architecture. Machines of one
            kind share a name.
    """
    text = json.dumps(facts, sort_keys=True, ensure_ascii=True)
    return "m-" + hashlib.sha256(text.encode()).hexdigest()[:ID_DIGITS]


def _stable_facts(nvml: Nvml) -> dict[str, Any]:
    return {
        "cpu": cpu_model(),
        "cores": psutil.cpu_count(logical=True),
        # Firmware and kernel keep some for themselves, each version a little more or less.
        "memory_gib": round(psutil.virtual_memory().total / GIB),
        "gpus": nvml.gpu_names() or _torch_gpu_names(),
        "os": platform.system(),
        "architecture": platform.machine(),
    }


def _torch_gpu_names() -> list[str]:
    if not torch.cuda.is_available():
        return []
    return sorted(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count()))


def cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Give the name of the processor's model, or of its architecture where it is not told."""
    try:
        text = cpuinfo.read_text()
    except OSError:
        text = ""
    found = re.search(r"^(?:model name|Hardware|cpu model)\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1].strip() if found else platform.processor() or platform.machine()


def usable_cores() -> int:
    """Count the logical cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def blas_name(torch_config: str) -> str:
    """Find which BLAS torch was built with in the text of `torch.__config__.show()`."""
    found = re.search(r"BLAS_INFO=(\w+)", torch_config)
    return found[1] if found else "unknown"
