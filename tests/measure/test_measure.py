from __future__ import annotations

import getpass
import json
import os
import platform
import shutil
import subprocess
import sys
import threading
from collections import namedtuple
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import torch
from measure_samples import CPU, FakeMemory, FakeNvml, fake_meter

from unlearnbench.measure import allocator, load, machine, provenance
from unlearnbench.measure.clock import Instruments, Meter
from unlearnbench.measure.memory import MIB, Fallible, HighWaterMark, NoGpu, SampledRss
from unlearnbench.measure.nvml import GpuReading, Nvml


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

    tools = Instruments(synchronise, lambda: 0.0, FakeMemory(), NoGpu("none"), lambda: GpuReading(None, "none"))
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


def test_the_version_of_the_driver_is_text_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Nvml(FakeNvml({})).driver() == "570.1"
    assert Nvml(FakeNvml({}, supported=False)).driver() is None
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert Nvml().driver() is None


def test_the_driver_is_asked_only_after_the_outermost_phase() -> None:
    reads: list[int] = []

    def read() -> GpuReading:
        reads.append(1)
        return GpuReading(42.0)

    meter = Meter(CPU, Instruments(lambda: None, lambda: 0.0, FakeMemory(), NoGpu("none"), read))
    with meter.phase("outer"), meter.phase("inner"):
        pass
    assert len(reads) == 1
    assert [row.get("gpu_process_mib") for row in meter.phases] == [42.0, None]


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


class Breaking(FakeMemory):
    """Memory that can be read a few times, and then no more."""

    readings = 3

    def peak(self) -> dict[str, float | None]:
        self.readings -= 1
        if self.readings < 0:
            raise PermissionError(13, "Permission denied")
        return super().peak()


def test_memory_that_cannot_be_read_any_more_is_unknown_from_there_on() -> None:
    resident = Fallible(Breaking())
    meter = Meter(CPU, Instruments(lambda: None, lambda: 0.0, resident, NoGpu("cpu"), lambda: GpuReading(None, "")))
    for name in ("fit", "unlearn"):
        with meter.phase(name), meter.phase("inner"):
            pass
    peaks = {row["name"]: row["peak_rss_mib"] for row in meter.phases}
    assert peaks["fit"] is not None
    assert peaks["fit/inner"] is not None
    assert peaks["unlearn"] is None
    assert peaks["unlearn/inner"] is None
    assert "Permission denied" in meter.reasons["peak_rss_mib"]


UNREADABLE = [PermissionError(13, "Permission denied"), FileNotFoundError(2, "/proc/stat"), OSError(38, "no"),
              ValueError("empty"), IndexError("no field"), RuntimeError("no"), psutil.AccessDenied(1)]  # fmt: skip


@pytest.mark.parametrize("error", UNREADABLE)
@pytest.mark.parametrize("call", ["cpu_times", "Process", "virtual_memory", "cpu_count"])
def test_a_system_that_hides_its_processors_ends_nothing(
    error: Exception, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object, **settings: object) -> None:
        raise error

    monkeypatch.setattr(psutil, call, refuse)
    found = load.LoadWatch().finish()
    assert found.other_cores is None
    assert found.is_busy()
    assert call in ("virtual_memory", "cpu_count") or "cannot be read" in found.reason
    described = machine.describe_machine()
    assert described["id"].startswith("m-")
    if call == "virtual_memory":
        assert described["memory_gib"] is None


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
        "torch": metadata.version("torch"),
        "not-there-at-all": None,
    }
    found = provenance.provenance()
    assert set(found) == {"python", "packages", "instructions", "git", "dirty"}
    assert found["instructions"] == torch.backends.cpu.get_cpu_capability()


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


def test_a_built_package_names_the_commit_it_was_built_from(checkout: Path, tmp_path: Path) -> None:
    shutil.copy(Path(__file__).parents[2] / "setup.py", checkout.parent)
    (checkout.parent / "pyproject.toml").write_text("")
    git(checkout.parent, "add", "pyproject.toml")
    git(checkout.parent, "commit", "-q", "-m", "second")
    built = tmp_path / "built"
    (built / "unlearnbench").mkdir(parents=True)
    # Without setuptools, which cannot be imported where the distutils of Python was before it.
    source = (checkout.parent / "setup.py").read_text("utf-8").partition("\nclass BuildWithCommit")[0]
    source = "\n".join(line for line in source.splitlines() if not line.startswith("from setuptools"))
    names: dict[str, Any] = {"__file__": str(checkout.parent / "setup.py"), "__name__": "setup_of_test"}
    exec(compile(source, "setup.py", "exec"), names)
    names["write_commit"](built)
    assert provenance.built_from(built / "unlearnbench") == (git(checkout.parent, "rev-parse", "HEAD").strip(), False)
    (built / "unlearnbench" / "commit.json").write_text("[]")
    assert provenance.built_from(built / "unlearnbench") == (None, None)
