"""GPU memory of this process as the driver reports it (NVML), with torch's device found by UUID.

Torch numbers the GPUs in `CUDA_VISIBLE_DEVICES`, in its order; NVML numbers all GPUs in bus order.
Both agree on the UUID, for whole GPUs and for MIG slices alike, whatever form the variable has.
"""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass, field
from typing import Any

import torch

from unlearnbench.measure.memory import MIB

# From here on an unsigned field of the driver means "not available"; some packages pass it on as a number.
NOT_AVAILABLE = 2**63


@dataclass(frozen=True)
class GpuReading:
    """The memory this process holds on a GPU, context included; None if it cannot be read, for a reason."""

    mib: float | None
    reason: str = ""


def torch_uuid(device: torch.device) -> str:
    """Return the UUID of a CUDA device of torch, without prefix.

    Raises:
        AttributeError: This torch has no UUIDs.
    """
    return str(torch.cuda.get_device_properties(device).uuid)


class Nvml:
    """A session with the driver, opened at the first reading of this process or the one named.

    The module is `pynvml` of the distribution nvidia-ml-py, imported at the first reading unless given.
    """

    def __init__(self, module: Any = None, pid: int | None = None) -> None:
        self._module = module
        self._pid = os.getpid() if pid is None else pid
        self._opened = False
        self._broken = ""

    def process_memory(self, uuid: str) -> GpuReading:
        """Read how much memory the process holds on the GPU of a UUID, with or without prefix `GPU-` or `MIG-`."""
        if not self._open():
            return GpuReading(None, self._broken)
        try:
            handle = self._handle(uuid)
            if handle is None:
                return GpuReading(None, f"NVML knows no GPU with UUID {uuid}")
            processes = self._processes(handle)
        except Exception as error:  # a reading must never end a run
            return GpuReading(None, f"NVML: {_text_of(error)}")
        # A process can have compute and graphics contexts at once: the driver then lists its
        # total use under both.
        own = [process.usedGpuMemory for process in processes if process.pid == self._pid]
        if not own:
            reason = f"NVML lists no process {self._pid} on this GPU (containers may hide process numbers)"
            return GpuReading(None, reason)
        known = [used for used in own if used is not None and used < NOT_AVAILABLE]
        if not known:
            return GpuReading(None, "NVML does not tell the memory of single processes here")
        return GpuReading(max(known) / MIB)

    def gpu_names(self) -> list[str]:
        """List the models of all GPUs of the machine, visible to torch or not; empty without NVML."""
        if not self._open():
            return []
        try:
            count = self._module.nvmlDeviceGetCount()
            names = [self._module.nvmlDeviceGetName(self._module.nvmlDeviceGetHandleByIndex(i)) for i in range(count)]
        except Exception:  # an old or foreign module raises errors of its own; a name must not end a run
            return []
        return sorted(name.decode() if isinstance(name, bytes) else str(name) for name in names)

    def driver(self) -> str | None:
        """Return the version of the driver; None without NVML."""
        if not self._open():
            return None
        try:
            version = self._module.nvmlSystemGetDriverVersion()
        except Exception:  # as above
            return None
        return version.decode() if isinstance(version, bytes) else str(version)

    def _open(self) -> bool:
        if self._opened or self._broken:
            return self._opened
        try:
            if self._module is None:
                self._module = importlib.import_module("pynvml")
            self._module.nvmlInit()
        except ImportError:
            self._broken = "nvidia-ml-py is not installed"
        except Exception as error:
            # A foreign or old module named pynvml may lack anything, even NVMLError.
            self._broken = f"NVML: {_text_of(error)}"
        else:
            self._opened = True
        return self._opened

    def _handle(self, uuid: str) -> Any:
        bare = uuid.removeprefix("GPU-").removeprefix("MIG-")
        for prefix in ("GPU-", "MIG-"):
            try:
                return self._module.nvmlDeviceGetHandleByUUID(prefix + bare)
            except (self._module.NVMLError_NotFound, self._module.NVMLError_InvalidArgument):
                continue
        return None

    def _processes(self, handle: Any) -> list[Any]:
        compute = list(self._module.nvmlDeviceGetComputeRunningProcesses(handle))
        try:
            return compute + list(self._module.nvmlDeviceGetGraphicsRunningProcesses(handle))
        except self._module.NVMLError_NotSupported:
            return compute


@dataclass(frozen=True)
class GpuProcessMemory:
    """Reads this process's memory on one device, for a meter at the end of a phase."""

    device: torch.device
    nvml: Nvml = field(default_factory=Nvml)

    def read(self) -> GpuReading:
        """Return the reading; never raises because of a GPU or a driver."""
        if self.device.type != "cuda":
            return GpuReading(None, f"computed on {self.device.type}")
        try:
            uuid = torch_uuid(self.device)
        except AttributeError:
            return GpuReading(None, "this torch does not tell the UUID of a device")
        except RuntimeError as error:
            return GpuReading(None, f"torch does not tell the UUID of this device: {error}")
        return self.nvml.process_memory(uuid)


def _text_of(error: Exception) -> str:
    return str(error) or type(error).__name__
