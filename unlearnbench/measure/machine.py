"""A description of the machine a cell ran on, and its identity, made of facts that do not change."""

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
# The facts that make up the identity of a machine, and all that is reported about it.
STABLE = ("cpu", "cores", "memory_gib", "gpus", "os", "architecture")
TOLD = ("id", *STABLE, "usable_cores", "os_release", "python", "blas", "torch_threads")


def describe_machine(nvml: Nvml | None = None) -> dict[str, Any]:
    """Describe this machine and how torch computes on it, with the keys `TOLD`: no user name, host name or path."""
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
    """Return the id of a machine, a hash of its `STABLE` facts: `m-` and six hexadecimal digits.

    Machines of one kind share an id.
    """
    text = json.dumps(facts, sort_keys=True, ensure_ascii=True)
    return "m-" + hashlib.sha256(text.encode()).hexdigest()[:ID_DIGITS]


def _stable_facts(nvml: Nvml) -> dict[str, Any]:
    return {
        "cpu": cpu_model(),
        "cores": _cores(),
        "memory_gib": _memory_gib(),
        "gpus": nvml.gpu_names() or _torch_gpu_names(),
        "os": platform.system(),
        "architecture": platform.machine(),
    }


def _cores() -> int | None:
    try:
        return psutil.cpu_count(logical=True)
    except Exception:  # psutil raises whatever an unreadable /proc leads to
        return os.cpu_count()


def _memory_gib() -> int | None:
    try:
        # Rounded: firmware and kernel reserve an amount that varies with their versions.
        return round(psutil.virtual_memory().total / GIB)
    except Exception:  # as above
        return None


def _torch_gpu_names() -> list[str]:
    if not torch.cuda.is_available():
        return []
    return sorted(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count()))


def cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Return the name of the processor's model, or of its architecture if that is unknown."""
    try:
        text = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    matched = re.search(r"^(?:model name|Hardware|cpu model)\s*:\s*(.+)$", text, re.MULTILINE)
    return matched[1].strip() if matched else platform.processor() or platform.machine()


def usable_cores() -> int:
    """Count the logical cores this process may run on."""
    try:
        return len(os.sched_getaffinity(0))
    except (AttributeError, OSError):  # not on this system, or forbidden
        return os.cpu_count() or 1


def blas_name(torch_config: str) -> str:
    """Return which BLAS torch was built with, from the text of `torch.__config__.show()`."""
    matched = re.search(r"BLAS_INFO=(\w+)", torch_config)
    return matched[1] if matched else "unknown"
