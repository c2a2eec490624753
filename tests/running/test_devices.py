"""No GPU is taken for granted: an absent device is named with those that exist, and CUDA is not started unasked."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import ONCE, command, install

from unlearnbench.errors import UsageError
from unlearnbench.running.device import choose_device

__all__ = ["command", "install"]


@pytest.mark.parametrize("device", ["cuda:77", "cuda:-1", "cuda:x", "tpu", "CPU", "", "3"])
def test_an_absent_device_stops_the_run_with_those_that_exist(command: Any, tmp_path: Path, device: str) -> None:
    told = command("run", "-m", "steady", *ONCE, f"--device={device}", "--out", str(tmp_path / "out"))
    assert told.code == 2
    assert f"--device {device}: there is no such device here" in told.err
    assert "Present: cpu" in told.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("count", [0, 2])
def test_devices_by_the_number_of_gpus(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    assert choose_device("cpu") == torch.device("cpu")
    present = ["cpu", "cuda:0", "cuda:1"][: 1 + count]
    assert choose_device("auto") == torch.device("cuda:0" if count else "cpu")
    for name in present:
        assert choose_device(name) == torch.device(name)
    absent = ["cuda:7", "cuda:2", *([] if count else ["cuda", "cuda:0"])]
    for name in absent:
        with pytest.raises(UsageError, match=f"`device` {name}: ") as error:
            choose_device(name)
        assert error.value.hint == f"Present: {', '.join(present)}."
    if count:
        assert choose_device("cuda") == torch.device("cuda:0")


# A machine with a GPU on which every attempt to start CUDA is an error: torch counts devices without starting it.
GPU_THAT_MUST_NOT_BE_TOUCHED = """
    import importlib
    import pkgutil
    import sys
    import types
    from importlib import metadata

    import torch

    def refuse(*arguments):
        raise AssertionError("CUDA was started")

    torch.cuda._lazy_init = refuse
    torch.cuda.is_available = lambda: True
    torch.cuda.device_count = lambda: 1
    driver = types.ModuleType("pynvml")
    driver.NVMLError = OSError
    driver.nvmlInit = lambda: None
    driver.nvmlDeviceGetCount = lambda: 1
    driver.nvmlDeviceGetHandleByIndex = lambda index: index
    driver.nvmlDeviceGetName = lambda handle: "Made-up GPU"
    sys.modules["pynvml"] = driver

    import unlearnbench
"""
EVERY_MODULE = """
    for name in ["unlearnbench", *(point.value for point in metadata.entry_points(group="unlearnbench"))]:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    assert {"unlearnbench.running.runner", "unlearnbench.cli.doctor", "unlearnbench_sisa.method"} <= sys.modules.keys()
    assert not torch.cuda.is_initialized()
"""
RUN = """
    methods = ["sisa", "grapheraser", "graphrevoker"]
    records = unlearnbench.run(methods, device="cpu", out=sys.argv[1], epochs=2, num_shards=3, repetitions=1)
    assert [record.status for record in records] == ["ok"] * 4, records
    assert not torch.cuda.is_initialized()
    print("CUDA was left alone")
"""


@pytest.mark.slow
def test_neither_an_import_nor_a_run_on_the_cpu_starts_cuda(tmp_path: Path) -> None:
    script = textwrap.dedent(GPU_THAT_MUST_NOT_BE_TOUCHED + EVERY_MODULE + RUN)
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "CUDA was left alone"


@pytest.mark.slow
def test_the_trap_closes_when_cuda_is_started() -> None:
    script = textwrap.dedent(GPU_THAT_MUST_NOT_BE_TOUCHED + "    torch.cuda.get_device_name(0)\n")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "CUDA was started" in done.stderr


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_without_a_gpu_the_default_is_the_cpu(command: Any, tmp_path: Path) -> None:
    told = command("run", "-m", "steady,sisa[num_shards=3]", *ONCE, "--out", str(tmp_path / "out"))
    assert told.code == 0
    assert ", cpu, threads 1" in told.err
