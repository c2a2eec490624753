"""C3: the driver is asked about torch's device by its UUID, and whatever it does not tell never costs a run."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from command_line import ONCE, command, install, records_of
from measure_samples import FakeNvml, FakeNvmlError

from unlearnbench.measure import clock, nvml
from unlearnbench.measure.nvml import GpuProcessMemory, GpuReading, Nvml

__all__ = ["command", "install"]


def test_the_gpu_is_found_by_uuid_not_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = FakeNvml({"GPU-b": [(7, 1 * 2**20)], "GPU-a": [(7, 300 * 2**20)]})
    # CUDA_VISIBLE_DEVICES=1: what torch calls cuda:0 is the driver's second.
    monkeypatch.setattr(nvml, "torch_uuid", lambda device: "a")
    memory = GpuProcessMemory(torch.device("cuda", 0), Nvml(driver, pid=7))
    assert memory.read() == GpuReading(300.0)
    assert memory.read() == GpuReading(300.0)
    assert driver.opened == 1


@pytest.mark.parametrize("uuid", ["s1", "GPU-s1", "MIG-s1"])
def test_a_slice_of_a_gpu_is_found_whatever_the_form(uuid: str) -> None:
    driver = FakeNvml({"GPU-whole": [(7, 9 * 2**20)], "MIG-s1": [(7, 5 * 2**20)]})
    assert Nvml(driver, pid=7).process_memory(uuid) == GpuReading(5.0)


@pytest.mark.parametrize(
    ("driver", "reason"),
    [
        (FakeNvml({"GPU-a": [(7, 2**20)]}, supported=False), "Not Supported"),
        (FakeNvml({"GPU-a": [(8, 2**20)]}), "lists no process 7"),
        (FakeNvml({"GPU-a": [(7, None)]}), "does not tell"),
        (FakeNvml({"GPU-b": [(7, 2**20)]}), "no GPU with UUID a"),
    ],
)
def test_what_the_driver_does_not_tell_is_empty_with_a_reason(driver: FakeNvml, reason: str) -> None:
    reading = Nvml(driver, pid=7).process_memory("a")
    assert reading.mib is None
    assert reason in reading.reason


def test_an_absent_package_or_driver_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert Nvml().process_memory("a") == GpuReading(None, "nvidia-ml-py is not installed")
    assert Nvml().gpu_names() == []

    class NoDriver(FakeNvml):
        def nvmlInit(self) -> None:  # noqa: N802
            raise FakeNvmlError("Driver Not Loaded")

    reading = Nvml(NoDriver({})).process_memory("a")
    assert reading == GpuReading(None, "NVML: Driver Not Loaded")


class Odd(FakeNvml):
    """A driver, or a package of that name, whose calls fail in ways of their own."""

    def __init__(self, error: Exception) -> None:
        super().__init__({"GPU-a": [(7, 2**20)]})
        self.error = error

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[Any]:  # noqa: N802
        raise self.error

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        raise self.error

    def nvmlSystemGetDriverVersion(self) -> bytes:  # noqa: N802
        raise self.error


ERRORS = [FakeNvmlError("GPU is lost"), OSError("no driver"), AttributeError("nvmlDeviceGetHandleByUUID"),
          UnicodeDecodeError("utf-8", b"x", 0, 1, "odd"), RuntimeError()]  # fmt: skip


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_any_failure_is_a_reason(error: Exception) -> None:
    session = Nvml(Odd(error), pid=7)
    reading = session.process_memory("a")
    assert reading.mib is None
    assert reading.reason.startswith("NVML: ")
    assert (str(error) or type(error).__name__) in reading.reason
    assert session.gpu_names() == []
    assert session.driver() is None


def test_a_strange_package_of_that_name_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    stranger = ModuleType("pynvml")
    monkeypatch.setitem(sys.modules, "pynvml", stranger)
    assert "NVML: " in Nvml().process_memory("a").reason
    stranger.nvmlInit = lambda: None  # type: ignore[attr-defined]
    assert "NVML: " in Nvml().process_memory("a").reason
    assert Nvml().gpu_names() == []


@pytest.mark.parametrize("used", [None, 2**64 - 1, 2**63])
def test_a_size_that_is_not_told_is_no_size(used: int | None) -> None:
    reading = Nvml(FakeNvml({"GPU-a": [(7, used)]}), pid=7).process_memory("a")
    assert reading == GpuReading(None, "NVML does not tell the memory of single processes here")


def test_a_process_listed_twice_counts_once() -> None:
    driver = FakeNvml({"GPU-a": [(7, 3 * 2**20), (8, 90 * 2**20), (7, 3 * 2**20)]})
    assert Nvml(driver, pid=7).process_memory("a") == GpuReading(3.0)


@pytest.mark.parametrize("error", [AttributeError("uuid"), RuntimeError("no such device")])
def test_a_device_without_uuid_is_a_reason(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(device: torch.device) -> str:
        raise error

    monkeypatch.setattr(nvml, "torch_uuid", fail)
    reading = GpuProcessMemory(torch.device("cuda", 0), Nvml(FakeNvml({}))).read()
    assert reading.mib is None
    assert "UUID" in reading.reason


@pytest.mark.parametrize(
    ("driver", "mib", "said"),
    [
        # CUDA_VISIBLE_DEVICES=1: torch's first GPU is the driver's second.
        (FakeNvml({"GPU-b": [(7, 2**20)], "GPU-a": [(7, 300 * 2**20)]}), 300.0, ""),
        (FakeNvml({"GPU-a": [(7, 2**20)]}, supported=False), None, "Not Supported"),
        (FakeNvml({"GPU-a": [(8, 2**20)]}), None, "lists no process 7"),
        (FakeNvml({"GPU-a": [(7, None)]}), None, "does not tell"),
        (Odd(OSError("no driver")), None, "no driver"),
        (None, None, "nvidia-ml-py is not installed"),
    ],
)
def test_a_run_goes_on_whatever_the_driver_tells(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: Any, mib: float | None, said: str
) -> None:
    if driver is None:
        monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr(nvml, "torch_uuid", lambda device: "a")
    asked = GpuProcessMemory(torch.device("cuda", 0), Nvml(driver, pid=7))
    monkeypatch.setattr(clock, "GpuProcessMemory", lambda device: asked)
    told = command("run", "-m", "steady", *ONCE, "--no-reference", "--out", str(tmp_path / "out"))
    assert told.code == 0, told.err
    ((_, record),) = records_of(tmp_path / "out").items()
    assert record.status == "ok"
    outermost = {row["gpu_process_mib"] for row in record.phases if "/" not in row["name"] and "gpu_process_mib" in row}
    assert outermost == ({mib} if mib is not None else set())
    assert said in record.provenance["readings"]["reasons"].get("gpu_process_mib", "")


def test_the_package_named_is_the_one_that_is_kept_up_and_help_warns_of_nothing() -> None:
    wanted = [line.split(";")[0].strip() for line in metadata.requires("unlearnbench") or []]
    assert any(line.startswith("nvidia-ml-py") for line in wanted)
    assert not any(line.startswith("pynvml") for line in wanted)
    script = (
        "import sys; from unlearnbench.cli import main\ntry: main(['--help'])\nfinally: print('pynvml' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "False"
