from __future__ import annotations

import getpass
import json
import os
import platform
import subprocess
import sys
import threading
from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from unlearnbench.measure import allocator, load, machine, nvml, provenance
from unlearnbench.measure.clock import Instruments, Meter
from unlearnbench.measure.memory import MIB, HighWaterMark, NoGpu, SampledRss, Sizes, gpu_memory
from unlearnbench.measure.nvml import GpuProcessMemory, Nvml, Reading
from unlearnbench.task import Listener

CPU = torch.device("cpu")


class FakeMemory:
    """A heap with a peak, as a kernel or an allocator keeps it."""

    name = "fake"

    def __init__(self, calls: list[str] | None = None) -> None:
        self.reasons: dict[str, str] = {}
        self.used = self.most = 0.0
        self.calls = [] if calls is None else calls

    def use(self, mib: float) -> None:
        self.used = mib
        self.most = max(self.most, mib)

    def reset(self) -> Sizes:
        self.calls.append("reset")
        self.most = self.used
        return {"start_rss_mib": self.used}

    def peak(self) -> Sizes:
        self.calls.append("peak")
        return {"peak_rss_mib": self.most}

    def rest(self) -> None:
        self.calls.append("rest")


def fake_meter(memory: FakeMemory, calls: list[str] | None = None) -> Meter:
    log = [] if calls is None else calls
    ticks = iter(range(1000))

    def clock() -> float:
        log.append("clock")
        return float(next(ticks))

    tools = Instruments(lambda: log.append("sync"), clock, memory, NoGpu("none here"), lambda: Reading(None, "none"))
    return Meter(CPU, tools)


def test_the_device_is_synchronised_before_both_looks_at_the_clock() -> None:
    calls: list[str] = []
    meter = fake_meter(FakeMemory(calls), calls)
    with meter.phase("train"):
        calls.append("work")
    assert calls == ["reset", "sync", "clock", "work", "sync", "clock", "peak", "rest"]


def test_nested_phases_join_their_names_and_stand_in_the_order_they_began() -> None:
    meter = fake_meter(FakeMemory())
    with meter.phase("unlearn"), meter.phase("retrain"), meter.phase("epoch"):
        assert meter.phases == []
    with meter.phase("predict"):
        pass
    assert [row["name"] for row in meter.phases] == [
        "unlearn",
        "unlearn/retrain",
        "unlearn/retrain/epoch",
        "predict",
    ]
    assert [row["seconds"] for row in meter.phases] == [5.0, 3.0, 1.0, 1.0]


def test_a_phase_starts_with_a_new_peak_and_holds_those_inside_it() -> None:
    memory = FakeMemory()
    meter = fake_meter(memory)
    memory.use(500)
    memory.use(10)
    with meter.phase("outer"):
        memory.use(100)
        memory.use(10)
        with meter.phase("small"):
            memory.use(20)
            memory.use(10)
        with meter.phase("large"):
            memory.use(70)
            memory.use(10)
    with meter.phase("next"):
        memory.use(15)
    peaks = {row["name"]: row["peak_rss_mib"] for row in meter.phases}
    assert peaks == {"outer": 100, "outer/small": 20, "outer/large": 70, "next": 15}
    assert {row["start_rss_mib"] for row in meter.phases} == {10}


def test_the_peak_of_an_inner_phase_is_a_peak_of_the_outer_one() -> None:
    memory = FakeMemory()
    meter = fake_meter(memory)
    with meter.phase("outer"):
        with meter.phase("first"):
            memory.use(90)
            memory.use(1)
        with meter.phase("second"):
            memory.use(2)
    assert [row["peak_rss_mib"] for row in meter.phases] == [90, 90, 2]


def test_a_peak_before_the_innermost_phase_reaches_the_outermost() -> None:
    memory = FakeMemory()
    meter = fake_meter(memory)
    with meter.phase("outer"), meter.phase("middle"):
        memory.use(100)
        memory.use(1)
        with meter.phase("inner"):
            memory.use(2)
    assert [row["peak_rss_mib"] for row in meter.phases] == [100, 100, 2]


def test_an_exception_closes_its_phase_and_passes_on() -> None:
    meter = fake_meter(FakeMemory())
    with pytest.raises(KeyError, match="lost"), meter.phase("outer"), meter.phase("inner"):
        raise KeyError("lost")
    with meter.phase("after"):
        pass
    assert [(row["name"], row.get("failed", False)) for row in meter.phases] == [
        ("outer", True),
        ("outer/inner", True),
        ("after", False),
    ]
    assert meter.seconds("outer") is None
    assert meter.phases[0]["seconds"] == 3.0


def test_a_device_that_fails_at_the_end_closes_the_phase_without_a_time() -> None:
    calls = iter([None, RuntimeError("device lost"), None, None])

    def synchronise() -> None:
        error = next(calls)
        if error is not None:
            raise error

    tools = Instruments(synchronise, lambda: 0.0, FakeMemory(), NoGpu("none"), lambda: Reading(None, "none"))
    meter = Meter(CPU, tools)
    with pytest.raises(RuntimeError, match="device lost"), meter.phase("train"):
        pass
    with meter.phase("next"):
        pass
    first, second = meter.phases
    assert (first["name"], first["seconds"], first["failed"]) == ("train", None, True)
    assert (second["name"], second["seconds"]) == ("next", 0.0)


def test_the_same_name_twice_is_two_rows_and_one_sum() -> None:
    meter = fake_meter(FakeMemory())
    for _ in range(3):
        with meter.phase("predict"):
            pass
    assert [row["seconds"] for row in meter.phases] == [1.0, 1.0, 1.0]
    assert meter.seconds("predict") == 3.0
    assert meter.seconds("train") is None


def test_counts_add_up() -> None:
    meter = fake_meter(FakeMemory())
    meter.count(steps=100, shards_hit=2)
    meter.count(steps=50)
    assert meter.counts == {"steps": 150, "shards_hit": 2}


def test_without_a_gpu_its_fields_are_empty_with_a_reason() -> None:
    meter = Meter(CPU)
    listener: Listener = meter
    with listener.phase("train"), listener.phase("inner"):
        torch.ones(10)
    for row in meter.phases:
        assert [row[key] for key in ("start_gpu_mib", "peak_gpu_mib", "peak_gpu_reserved_mib")] == [None] * 3
        assert row["peak_rss_mib"] >= row["start_rss_mib"] > 10
    assert meter.phases[0]["gpu_process_mib"] is None
    assert meter.reasons == dict.fromkeys(
        ("start_gpu_mib", "peak_gpu_mib", "peak_gpu_reserved_mib", "gpu_process_mib"), "computed on cpu"
    )
    assert meter.sources["rss"] in ("vmhwm", "sampled")
    assert meter.sources["gpu"] == "none"


@pytest.mark.skipif(sys.platform != "linux", reason="a mark of Linux")
def test_the_kernels_mark_falls_when_reset() -> None:
    if not HighWaterMark().works():
        pytest.skip("this kernel does not reset the mark")
    meter = Meter(CPU)
    assert meter.sources["rss"] == "vmhwm"
    with meter.phase("large"):
        torch.ones(int(96 * MIB) // 4)
    with meter.phase("small"):
        torch.ones(int(8 * MIB) // 4)
    large, small = meter.phases
    assert large["peak_rss_mib"] - large["start_rss_mib"] > 90
    assert small["peak_rss_mib"] - small["start_rss_mib"] < 40


def test_a_mark_that_is_absent_or_never_falls_is_not_used(tmp_path: Path) -> None:
    assert not HighWaterMark(tmp_path).works()
    (tmp_path / "status").write_text("VmHWM:\t  4096 kB\nVmRSS:\t  2048 kB\n")
    stuck = HighWaterMark(tmp_path)
    assert stuck.reset() == {"start_rss_mib": 2.0}
    assert (tmp_path / "clear_refs").read_text() == "5"
    assert stuck.peak() == {"peak_rss_mib": 4.0}
    assert not stuck.works()


def test_the_sampling_thread_sees_what_was_gone_again_and_ends_with_the_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = threading.Event()
    source = SampledRss(seconds=0.001)

    def memory_info() -> SimpleNamespace:
        if threading.current_thread().name == "unlearnbench-rss":
            seen.set()
            return SimpleNamespace(rss=100 * MIB)
        return SimpleNamespace(rss=10 * MIB)

    monkeypatch.setattr(source, "_process", SimpleNamespace(memory_info=memory_info))
    assert source.reset() == {"start_rss_mib": 10.0}
    assert seen.wait(10)
    source.rest()
    assert source.peak() == {"peak_rss_mib": 100.0}
    assert "unlearnbench-rss" not in [thread.name for thread in threading.enumerate()]


def test_a_sampled_peak_starts_anew_with_each_reset() -> None:
    source = SampledRss()
    source.reset()
    block = bytearray(os.urandom(1)) * int(64 * MIB)
    high = source.peak()["peak_rss_mib"]
    del block
    start = source.reset()["start_rss_mib"]
    low = source.peak()["peak_rss_mib"]
    source.rest()
    assert high is not None
    assert low is not None
    assert start is not None
    assert high - start > 48
    assert low - start < 16


class FakeNvmlError(Exception):
    pass


class FakeNotFoundError(FakeNvmlError):
    pass


class FakeInvalidError(FakeNvmlError):
    pass


class FakeNotSupportedError(FakeNvmlError):
    pass


class FakeNvml:
    """A driver with GPUs `{uuid: [(pid, bytes or None), ...]}`, in the order of the bus."""

    NVMLError = FakeNvmlError
    NVMLError_NotFound = FakeNotFoundError
    NVMLError_InvalidArgument = FakeInvalidError
    NVMLError_NotSupported = FakeNotSupportedError

    def __init__(self, gpus: dict[str, list[tuple[int, int | None]]], supported: bool = True) -> None:
        self.gpus = gpus
        self.supported = supported
        self.opened = 0

    def nvmlInit(self) -> None:  # noqa: N802
        self.opened += 1

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802
        if uuid not in self.gpus:
            raise FakeNotFoundError("Not Found")
        return uuid

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[Any]:  # noqa: N802
        if not self.supported:
            raise FakeNotSupportedError("Not Supported")
        return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in self.gpus[handle]]

    def nvmlDeviceGetGraphicsRunningProcesses(self, handle: str) -> list[Any]:  # noqa: N802
        raise FakeNotSupportedError("Not Supported")

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:  # noqa: N802
        return list(self.gpus)[index]

    def nvmlDeviceGetName(self, handle: str) -> bytes:  # noqa: N802
        return f"Model {handle[-1]}".encode()

    def nvmlSystemGetDriverVersion(self) -> bytes:  # noqa: N802
        if not self.supported:
            raise FakeNotSupportedError("Not Supported")
        return b"570.1"


def test_the_gpu_is_found_by_uuid_not_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = FakeNvml({"GPU-b": [(7, 1 * 2**20)], "GPU-a": [(7, 300 * 2**20)]})
    # CUDA_VISIBLE_DEVICES=1: what torch calls cuda:0 is the driver's second.
    monkeypatch.setattr(nvml, "torch_uuid", lambda device: "a")
    memory = GpuProcessMemory(torch.device("cuda", 0), Nvml(driver, pid=7))
    assert memory.read() == Reading(300.0)
    assert memory.read() == Reading(300.0)
    assert driver.opened == 1


@pytest.mark.parametrize("uuid", ["s1", "GPU-s1", "MIG-s1"])
def test_a_slice_of_a_gpu_is_found_whatever_the_form(uuid: str) -> None:
    driver = FakeNvml({"GPU-whole": [(7, 9 * 2**20)], "MIG-s1": [(7, 5 * 2**20)]})
    assert Nvml(driver, pid=7).process_memory(uuid) == Reading(5.0)


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


def test_the_version_of_the_driver_is_text_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Nvml(FakeNvml({})).driver() == "570.1"
    assert Nvml(FakeNvml({}, supported=False)).driver() is None
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert Nvml().driver() is None


def test_an_absent_package_or_driver_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert Nvml().process_memory("a") == Reading(None, "nvidia-ml-py is not installed")
    assert Nvml().gpu_names() == []

    class NoDriver(FakeNvml):
        def nvmlInit(self) -> None:  # noqa: N802
            raise FakeNvmlError("Driver Not Loaded")

    reading = Nvml(NoDriver({})).process_memory("a")
    assert reading == Reading(None, "NVML: Driver Not Loaded")


def test_the_driver_is_asked_only_after_the_outermost_phase() -> None:
    reads: list[int] = []

    def read() -> Reading:
        reads.append(1)
        return Reading(42.0)

    meter = Meter(CPU, Instruments(lambda: None, lambda: 0.0, FakeMemory(), NoGpu("none"), read))
    with meter.phase("outer"), meter.phase("inner"):
        pass
    assert len(reads) == 1
    assert [row.get("gpu_process_mib") for row in meter.phases] == [42.0, None]


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_peaks_of_a_gpu_are_not_carried_over() -> None:
    device = torch.device("cuda", 0)
    assert gpu_memory(device).reasons == {}
    meter = Meter(device)
    for name, mib in (("large", 512), ("small", 64)):
        with meter.phase(name):
            torch.ones(int(mib * MIB) // 4, device=device)
    large, small = meter.phases
    assert large["peak_gpu_mib"] - large["start_gpu_mib"] >= 512
    assert 64 <= small["peak_gpu_mib"] - small["start_gpu_mib"] < 100
    assert small["peak_gpu_reserved_mib"] >= small["peak_gpu_mib"]
    assert (small["gpu_process_mib"] is None) == ("gpu_process_mib" in meter.reasons)


def test_a_machine_is_known_by_what_does_not_change() -> None:
    first, second = machine.describe_machine(Nvml(FakeNvml({}))), machine.describe_machine(Nvml(FakeNvml({})))
    assert first == second
    assert first["cores"] >= first["usable_cores"] >= 1
    assert first["memory_gib"] >= 1
    with_gpu = machine.describe_machine(Nvml(FakeNvml({"GPU-a": [], "GPU-b": []})))
    assert with_gpu["gpus"] == ["Model a", "Model b"]
    assert with_gpu["id"] != first["id"]
    assert len(first["id"]) == 8
    assert int(first["id"].removeprefix("m-"), 16) >= 0
    json.dumps(first, allow_nan=False)


def test_a_machines_name_depends_on_its_facts_alone() -> None:
    facts = {"cpu": "A", "cores": 2, "memory_gib": 4, "gpus": [], "os": "Linux", "architecture": "x86_64"}
    assert machine.machine_id(facts) == machine.machine_id(dict(reversed(facts.items())))
    assert len({machine.machine_id({**facts, key: "other"}) for key in facts} | {machine.machine_id(facts)}) == 7


def test_a_description_names_neither_user_nor_host_nor_folder() -> None:
    text = json.dumps(machine.describe_machine(Nvml(FakeNvml({}))))
    values = {getpass.getuser(), platform.node(), str(Path.home())} - {""}
    quoted = {value for value in values if f'"{value}"' in text}
    assert quoted == set()


def test_the_models_name_is_read_from_the_kernel(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nmodel name\t: B\n")
    assert machine.cpu_model(tmp_path / "cpuinfo") == "Some CPU @ 2 GHz"
    assert machine.cpu_model(tmp_path / "absent") == (platform.processor() or platform.machine())
    assert machine.blas_name("Build settings: BLAS_INFO=mkl, CXX") == "mkl"
    assert machine.blas_name("nothing") == "unknown"


def watched(machine_seconds: float, own_seconds: float, seconds: float) -> load.Load:
    return load.LoadWatch(
        machine=iter([1000.0, 1000.0 + machine_seconds]).__next__,
        own=iter([50.0, 50.0 + own_seconds]).__next__,
        clock=iter([7.0, 7.0 + seconds]).__next__,
    ).finish()


@pytest.mark.parametrize(
    ("machine_seconds", "own_seconds", "others", "exclusive"),
    [(10.0, 10.0, 0.0, True), (9.98, 10.0, 0.0, True), (14.0, 10.0, 0.4, True), (18.0, 10.0, 0.8, False)],
)
def test_only_the_work_of_others_makes_a_machine_busy(
    machine_seconds: float, own_seconds: float, others: float, exclusive: bool
) -> None:
    found = watched(machine_seconds, own_seconds, 10.0)
    assert found.other_cores == pytest.approx(others)
    assert found.is_exclusive() is exclusive
    assert found.is_busy() is not exclusive


@pytest.mark.parametrize(("readings", "reason"), [((0.1, 0.1, 0.1), "too short"), ((0.0, 10.0, 10.0), "does not show")])
def test_what_cannot_be_told_is_not_quiet(readings: tuple[float, float, float], reason: str) -> None:
    found = watched(*readings)
    assert found.other_cores is None
    assert reason in found.reason
    assert found.is_busy()


def test_stolen_time_is_busy_and_guests_are_not_counted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    Times = namedtuple("Times", "user nice system idle iowait irq softirq steal guest guest_nice")
    monkeypatch.setattr(load.psutil, "cpu_times", lambda: Times(10, 1, 5, 900, 30, 1, 2, 4, 3, 1))
    assert load.machine_busy_seconds() == 10 + 1 + 5 + 1 + 2 + 4


def test_the_work_of_children_is_our_own() -> None:
    before = load.own_busy_seconds()
    work = "import time\nwhile time.process_time() < 0.2: pass"
    subprocess.run([sys.executable, "-c", work], check=True)
    assert load.own_busy_seconds() - before > 0.1


def git(folder: Path, *arguments: str) -> str:
    names = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    return subprocess.run(
        ["git", *names, *arguments], cwd=folder, check=True, capture_output=True, text=True, env=environment
    ).stdout


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    package = tmp_path / "source" / "unlearnbench"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    git(package.parent, "init", "-q")
    git(package.parent, "add", ".")
    git(package.parent, "commit", "-q", "-m", "first")
    return package


def test_the_commit_and_changes_of_the_source_are_told(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = git(checkout, "rev-parse", "HEAD").strip()
    assert provenance.git_state(checkout) == (commit, False)
    (checkout.parent / "results.json").write_text("{}")
    (checkout / "__pycache__").mkdir()
    (checkout / "__pycache__" / "a.pyc").write_text("")
    assert provenance.git_state(checkout) == (commit, False)
    monkeypatch.setenv("GIT_DIR", str(checkout / "elsewhere"))
    assert provenance.git_state(checkout) == (commit, False)
    (checkout / "new.py").write_text("")
    assert provenance.git_state(checkout) == (commit, True)


def test_a_changed_plugin_beside_the_package_is_a_change(checkout: Path) -> None:
    (checkout.parent / "plugins").mkdir()
    (checkout.parent / "plugins" / "one.py").write_text("")
    assert provenance.git_state(checkout)[1] is True


def test_a_package_installed_inside_a_strangers_checkout_has_no_commit(checkout: Path, tmp_path: Path) -> None:
    installed = checkout.parent / "venv" / "unlearnbench"
    installed.mkdir(parents=True)
    (installed / "__init__.py").write_text("")
    assert provenance.git_state(installed) == (None, None)
    assert provenance.git_state(tmp_path) == (None, None)


def test_without_git_there_is_no_commit(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert provenance.git_state(checkout) == (None, None)


def test_versions_are_those_installed() -> None:
    assert provenance.package_versions(("torch", "not-there-at-all")) == {
        "torch": torch.__version__,
        "not-there-at-all": None,
    }
    assert set(provenance.provenance()) == {"python", "packages", "git", "dirty"}


# Allocator


def test_the_allocator_is_made_steady_or_says_why_not(monkeypatch):
    assert allocator.steady_allocator() == allocator.steady_allocator()
    if sys.platform.startswith("linux") and platform.libc_ver()[0] == "glibc":
        assert allocator.steady_allocator().startswith("glibc's malloc keeps 64 MiB")
    monkeypatch.setattr(allocator.ctypes, "CDLL", lambda name: SimpleNamespace())
    monkeypatch.setattr(allocator.sys, "platform", "linux")
    assert allocator.steady_allocator() == "not glibc's malloc: left as it is"
    monkeypatch.setattr(allocator.ctypes, "CDLL", lambda name: SimpleNamespace(mallopt=lambda which, value: 0))
    assert "refused" in allocator.steady_allocator()
    monkeypatch.setattr(allocator.sys, "platform", "darwin")
    assert allocator.steady_allocator() == "as darwin has it"
