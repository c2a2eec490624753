"""Cells on the workers of a dask cluster: a real scheduler and worker processes on the loopback interface."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from command_line import ONCE, SHARDS, command, install, records_of

from unlearnbench.errors import UsageError
from unlearnbench.running import plan as planning
from unlearnbench.running.backends import dask_cells, dask_members, dask_worker
from unlearnbench.running.config import make_config
from unlearnbench.unlearning import group_training

pytestmark = pytest.mark.slow

__all__ = ["command", "install"]

# Starting Python, torch and dask in several processes takes long on a machine that has other work.
WAIT_SECONDS = 600.0

# The first time it says whose child it is, and waits to be ended.
WAITS = """
import os
import time
from pathlib import Path

from ub_toys import Steady

from unlearnbench import hookimpl


class Waits(Steady):
    name = "waits"

    def unlearn(self, request, retained):
        super().unlearn(request, retained)
        told = Path(os.environ["TOY_WAITS"])
        if int(retained.graph.ids.min()) < 5000 or told.exists():
            return
        written = told.with_suffix(".part")
        written.write_text(str(os.getppid()))
        written.rename(told)
        while True:
            time.sleep(0.01)


@hookimpl
def register_unlearners(register):
    register(Waits)
"""

# The first worker that is given shard 1 says who it is, and waits to be ended.
WAITS_FOR_A_MEMBER = """
import os
import time
from pathlib import Path

from unlearnbench import Sharded, hookimpl


class WaitsForAMember(Sharded):
    name = "waits_for_a_member"
    summary = "Waits in training."
    named_by_parts = False

    def train_members(self, task, graphs, shards):
        told = Path(os.environ["TOY_WAITS"])
        if int(task.graph.ids.min()) >= 5000 and 1 in shards and not told.exists():
            written = told.with_suffix(".part")
            written.write_text(str(os.getpid()))
            written.rename(told)
            while True:
                time.sleep(0.01)
        return super().train_members(task, graphs, shards)

    def extra_state(self, shards):
        return {}


@hookimpl
def register_unlearners(register):
    register(WaitsForAMember)
"""


@contextmanager
def dask_cluster(folder: Path, workers: int, environment: Mapping[str, str]) -> Iterator[tuple[str, list[int]]]:
    """Start a scheduler and workers, and give its address and their process ids."""
    distributed = pytest.importorskip("distributed", reason="needs the extra dask")
    where = folder / "scheduler.json"
    places = os.pathsep.join(place or os.getcwd() for place in sys.path)
    settings: dict[str, Any] = {
        "env": {**os.environ, "PYTHONPATH": places, **environment},
        "cwd": folder,
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
    }
    plain = ("--no-dashboard", "--host", "127.0.0.1")
    head = [sys.executable, "-m", "distributed.cli.dask_scheduler"]
    started = [subprocess.Popen([*head, *plain, "--port", "0", "--scheduler-file", str(where)], **settings)]
    try:
        until = time.monotonic() + WAIT_SECONDS
        while not where.exists() or not where.read_text():
            assert started[0].poll() is None
            assert time.monotonic() < until
            time.sleep(0.05)
        address = json.loads(where.read_text())["address"]
        worker = [sys.executable, "-m", "distributed.cli.dask_worker", address, *plain, "--no-nanny", "--nthreads", "1"]
        started += [subprocess.Popen([*worker, "--name", f"w{at}"], **settings) for at in range(workers)]
        with distributed.Client(address) as client:
            client.wait_for_workers(workers, timeout=WAIT_SECONDS)
        yield address, [process.pid for process in started[1:]]
    finally:
        for process in reversed(started):
            process.kill()
            process.wait()


def kill_whom_it_names(told: Path, among: list[int], killed: list[int]) -> None:
    until = time.monotonic() + WAIT_SECONDS
    while not told.exists() and time.monotonic() < until:
        time.sleep(0.02)
    number = int(told.read_text())
    if number in among:
        os.kill(number, signal.SIGKILL)
        killed.append(number)


def same(one: Any, other: Any) -> bool:
    """Tell whether two states are equal, tensors bit for bit."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return torch.equal(one, other) if isinstance(one, torch.Tensor) else bool(one == other)


@pytest.mark.skipif(os.name == "nt", reason="a worker is killed as POSIX has it")
def test_cells_of_a_killed_worker_run_elsewhere_and_records_are_those_of_a_serial_run(
    command: Any, install: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed", reason="needs the extra dask")
    install("ub-waits", WAITS)
    told = tmp_path / "told"
    monkeypatch.setenv("TOY_WAITS", str(told))
    arguments = ("run", "-m", "waits", *ONCE, "--no-reference")
    told.touch()
    assert command(*arguments, "--out", "serial", "--save-state", "serial-states").code == 0
    told.unlink()
    serial = records_of(tmp_path / "serial")
    killed: list[int] = []
    with dask_cluster(tmp_path, 2, {"TOY_WAITS": str(told)}) as (address, workers):
        there = ("--backend", "dask", "--scheduler", address, "--out", "dask", "--save-state", "states")
        with monkeypatch.context() as patch:
            patch.setattr(planning, "provenance", lambda: {"packages": {"torch": "0.1"}, "python": "2.7"})
            refused = command(*arguments, *there)
        killer = threading.Thread(target=kill_whom_it_names, args=(told, workers, killed))
        killer.start()
        done = command(*arguments, *there)
        killer.join()
    assert refused.code == 2
    assert "error: Worker tcp://127.0.0.1:" in refused.err
    assert re.search(r"has other versions than this side: python 3\S+, not 2\.7; .*torch \S+, not 0\.1", refused.err)
    assert done.code == 0, done.err
    assert len(killed) == 1
    came = records_of(tmp_path / "dask")
    assert came.keys() == serial.keys() == {("waits", 0)}
    for name, record in came.items():
        for field in (
            "key",
            "status",
            "label",
            "cell",
            "requests",
            "metrics",
            "counts",
            "digests",
            "partition",
            "claim",
        ):
            assert getattr(record, field) == getattr(serial[name], field), field
        assert record.provenance["backend"] == "dask"
        assert record.provenance["exclusive"] is False
        assert record.provenance["worker"]["machine"] == record.machine
        assert "(--backend dask): it gives no times" in " ".join(record.notes)
        path = f"{record.key}.pt"
        kept = [torch.load(tmp_path / folder / path, weights_only=True) for folder in ("states", "serial-states")]
        assert same(kept[0], kept[1])
    arrays = sorted(path.name for path in (tmp_path / "dask").glob("records/*/*/*/*.npz"))
    assert arrays == sorted(f"{record.key}.npz" for record in came.values())
    assert "1 records give no times" in command("report", "dask", "--table", "time").out
    # Nothing is left to send: nobody need answer.
    again = command(*arguments, "--backend", "dask", "--scheduler", "tcp://127.0.0.1:9", "--out", "dask")
    assert (again.code, "1 were there already" in again.err) == (0, True)


@pytest.mark.skipif(os.name == "nt", reason="a worker is killed as POSIX has it")
def test_members_of_a_killed_worker_are_trained_elsewhere_and_are_those_of_a_serial_run(
    command: Any, install: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed", reason="needs the extra dask")
    install("ub-waits-member", WAITS_FOR_A_MEMBER)
    told = tmp_path / "told"
    monkeypatch.setenv("TOY_WAITS", str(told))
    methods = "waits_for_a_member[num_shards=4],sisa[num_shards=3,slices=2]"
    arguments = ("run", "-m", methods, *ONCE, "--forget-count", "6", "--no-reference")
    told.touch()
    with monkeypatch.context() as patch:
        # So that steps are counted member by member, as on a cluster.
        patch.setattr(group_training, "MOST_TRAINED", 1)
        assert command(*arguments, "--out", "serial", "--save-state", "serial-states").code == 0
    told.unlink()
    serial = records_of(tmp_path / "serial")
    killed: list[int] = []
    with dask_cluster(tmp_path, 2, {"TOY_WAITS": str(told)}) as (address, workers):
        there = ("--backend", "dask", "--scheduler", address, "--distribute", "members")
        with monkeypatch.context() as patch:
            patch.setattr(planning, "provenance", lambda: {"packages": {"torch": "0.1"}, "python": "2.7"})
            refused = command(*arguments, *there, "--out", "dask")
        killer = threading.Thread(target=kill_whom_it_names, args=(told, workers, killed))
        killer.start()
        done = command(*arguments, *there, "--out", "dask", "--save-state", "states")
        killer.join()
    assert refused.code == 2
    assert "has other versions than this side" in refused.err
    assert done.code == 0, done.err
    assert len(killed) == 1
    came = records_of(tmp_path / "dask")
    assert came.keys() == serial.keys() == {("waits_for_a_member", 0), ("sisa", 0)}
    for name, record in came.items():
        for field in ("key", "status", "cell", "requests", "metrics", "counts", "digests", "partition", "claim"):
            assert getattr(record, field) == getattr(serial[name], field), field
        assert len(record.digests["members_changed"]) > 1
        assert record.provenance["backend"] == "dask-members"
        assert record.provenance["exclusive"] is False
        assert "Members were trained on a cluster (--distribute members): it gives no times." in record.notes
        assert not any(note.startswith(("The method ", "No member ")) for note in record.notes)
        path = f"{record.key}.pt"
        kept = [torch.load(tmp_path / folder / path, weights_only=True) for folder in ("states", "serial-states")]
        assert same(kept[0], kept[1])
    assert not (tmp_path / "dask" / "unfinished").exists()
    assert "2 records give no times" in command("report", "dask", "--table", "time").out


def test_members_are_not_trained_where_versions_differ() -> None:
    answer = dask_worker.train_members(json.dumps({"provenance": HERE, "disable_plugins": []}), {}, [], {})
    assert any(line.startswith("python ") for line in answer["differences"])
    assert answer["members"] == {}


class Answers:
    """A client whose every future gives, or raises, the same."""

    def __init__(self, said: Any) -> None:
        self.said = said

    def wait_for_workers(self, count: int) -> None:
        pass

    def scatter(self, data: list[Any], **how: Any) -> list[Any]:
        return data

    def submit(self, *arguments: Any, **how: Any) -> Answers:
        return self

    def cancelled(self) -> bool:
        return isinstance(self.said, CancelledError)

    def result(self) -> Any:
        if isinstance(self.said, BaseException):
            raise self.said
        return self.said


@pytest.mark.parametrize(
    ("said", "code", "message"),
    [
        ({"differences": ["python 2.7, not 3.11"]}, 2, "Worker that joined later has other versions"),
        (OSError("gone"), 1, "The scheduler tcp://127.0.0.1:9 is lost"),
        (AttributeError("train_members"), 1, "A worker cannot train members"),
    ],
)
def test_what_goes_wrong_for_every_member_ends_the_run_and_becomes_no_record(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: Any, code: int, message: str
) -> None:
    pytest.importorskip("distributed", reason="needs the extra dask")

    @contextmanager
    def connected(plan: Any) -> Iterator[Any]:
        yield Answers(said)

    monkeypatch.setattr(dask_members, "connected", connected)
    there = ("--backend", "dask", "--scheduler", "tcp://127.0.0.1:9", "--distribute", "members")
    told = command("run", "-m", "steady,sisa", *ONCE, *SHARDS, "--no-reference", *there, "--out", "o")
    assert told.code == code
    assert f"error: {message}" in told.err
    assert "Traceback" not in told.err
    # What trains no member was computed here, before.
    ((name, record),) = records_of(tmp_path / "o").items()
    assert name == ("steady", 0)
    assert "No member was sent to the cluster: all was trained here." in record.notes


@pytest.mark.parametrize("lost", ["its worker", "the worker with the graph"])
def test_a_member_that_costs_every_worker_costs_its_cell(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    distributed = pytest.importorskip("distributed", reason="needs the extra dask")

    @contextmanager
    def connected(plan: Any) -> Iterator[Any]:
        killed = distributed.KilledWorker("task", SimpleNamespace(address="tcp://w:1"), 3)
        yield Answers(killed if lost == "its worker" else CancelledError())

    monkeypatch.setattr(dask_members, "connected", connected)
    there = ("--backend", "dask", "--scheduler", "tcp://127.0.0.1:9", "--distribute", "members")
    assert command("run", "-m", "sisa", *ONCE, *SHARDS, "--no-reference", *there, "--out", "o").code == 1
    ((_, record),) = records_of(tmp_path / "o").items()
    assert record.status == "error"
    assert record.error is not None
    assert record.error["message"].startswith("The member of shard 0 was not trained: every worker")


def test_an_audit_does_not_have_its_members_distributed(command: Any) -> None:
    there = ("--backend", "dask", "--scheduler", "tcp://127.0.0.1:9", "--distribute", "members")
    told = command("audit", "exactness", "-m", "sisa", *ONCE, *SHARDS, *there, "--out", "o")
    assert told.code == 2
    assert "error: --distribute members is for run" in told.err


def test_a_scheduler_that_does_not_answer_is_told(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed", reason="needs the extra dask")
    monkeypatch.setattr(dask_cells, "CONNECT_SECONDS", 1)
    told = command("run", "-m", "steady", *ONCE, "--backend", "dask", "--scheduler", "tcp://127.0.0.1:9", "--out", "o")
    assert told.code == 2
    assert "error: --scheduler tcp://127.0.0.1:9: no dask scheduler answers there" in told.err
    assert "dask scheduler" in told.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("address", "hint"),
    [
        ("tls://127.0.0.1:9", "distributed.comm.tls"),
        ("tls://", "distributed.comm.tls"),
        ("odd://x:1", "dask scheduler"),
    ],
)
def test_an_address_that_dask_cannot_use_is_told(command: Any, address: str, hint: str) -> None:
    pytest.importorskip("distributed", reason="needs the extra dask")
    told = command("run", "-m", "steady", *ONCE, "--backend", "dask", "--scheduler", address, "--out", "o")
    assert told.code == 2
    error, remedy = told.err.splitlines()[-2:]
    assert error.startswith(f"error: --scheduler {address}: no dask scheduler answers there (")
    assert hint in remedy


def test_a_missing_extra_is_told(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    told = command("run", "-m", "steady", *ONCE, "--backend", "dask", "--scheduler", "tcp://127.0.0.1:9", "--out", "o")
    assert told.code == 2
    assert 'pip install "unlearnbench[dask]"' in told.err


MEMBERS = {"backend": "dask", "scheduler": "tcp://h:1", "distribute": "members"}
HERE = {"python": "3.11.9", "packages": {"torch": "2.13.0", "scipy": None}, "plugins": {"ub-a": "1"}, "git": "aa"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, []),
        ({"git": None}, []),
        ({"dirty": True}, []),
        ({"git": "bb"}, ["the commit of unlearnbench bb, not aa"]),
        ({"python": "3.12.1"}, ["python 3.12.1, not 3.11.9"]),
        ({"packages": {"torch": "2.12.0"}}, ["torch 2.12.0, not 2.13.0"]),
        ({"plugins": {}}, ["ub-a is not there, not 1"]),
        ({"plugins": {"ub-a": "1", "ub-b": "2"}}, ["ub-b 2, not absent"]),
    ],
)
def test_every_difference_of_versions_has_its_name(change: dict[str, Any], said: list[str]) -> None:
    assert dask_worker.version_differences(HERE, {**HERE, **change}) == said


def test_a_worker_that_joins_later_with_other_versions_computes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_worker, "Processes", None)
    answer = dask_worker.compute(json.dumps({"provenance": HERE, "disable_plugins": []}), None)
    assert any(line.startswith("python ") for line in answer["differences"])
    assert answer["files"] == {}
    with pytest.raises(UsageError, match=r"Worker w has other versions than this side: python .*; ") as caught:
        dask_cells._refuse("w", answer["differences"])
    assert "Install the same there" in caught.value.hint


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"backend": "dask"}, "Add `scheduler` ADDRESS"),
        ({"scheduler": "tcp://h:1"}, "Add `backend` dask"),
        ({"backend": "dask", "scheduler": "tcp://h:1", "jobs": 2}, "the workers' threads"),
        ({"distribute": "members"}, "Add `backend` dask and `scheduler` ADDRESS"),
        ({**MEMBERS, "isolate": True}, "leave one of them out"),
        ({**MEMBERS, "cell_timeout": 5}, "leave one of them out"),
        ({**MEMBERS, "train": "one-by-one"}, "leave one of them out"),
    ],
)
def test_settings_of_a_cluster_that_contradict_each_other_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        make_config(settings)
    assert said in caught.value.hint


def test_a_device_need_not_be_here_for_cells_that_run_elsewhere() -> None:
    assert str(planning.choose_device("cuda:7", elsewhere=True)) == "cuda:7"
    for name in ("cuda:x", "tpu", "cuda:-1"):
        with pytest.raises(UsageError, match="no such device"):
            planning.choose_device(name, elsewhere=True)
    with pytest.raises(UsageError, match="no such device"):
        planning.choose_device("cuda:77")
