"""G3: a cell that fails has a record that says how, and costs no other cell anything."""

from __future__ import annotations

import gc
import os
import random
import time
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from command_line import ONCE, SHARDS, WAIT_SECONDS, command, files_of, install, records_of
from misbehaving_samples import MISBEHAVING
from plugin_samples import Write

import unlearnbench
from unlearnbench.measure.request_time import HARNESS_PHASES

__all__ = ["command", "install"]

# What ends the process, or never returns, is tested with --isolate alone.
WRONG = {
    "shape": ("error", "expected [10, 3]"),
    "classes": ("error", "predict() gave a tensor [10, 6], expected [10, 3]"),
    "nothing": ("error", "predict() gave a NoneType"),
    "whole": ("error", "predict() gave torch.int64"),
    "probabilities": ("error", "no log-probabilities: of one the probabilities sum to"),
    "elsewhere": ("error", "predict() gave a tensor on meta, expected cpu"),
    "state-elsewhere": ("error", "state() has 'members/000/weight' on meta, expected cpu"),
    "no-state": ("error", "state() has 'weight': a float"),
    "odd": ("error", "not even an Exception"),
    "hungry": ("oom", "can't allocate memory"),
    "not-finite": ("diverged", "diverged: "),
    "writes-features": ("refused", "changed the training graph in place"),
    "writes-unseen": ("refused", "changed the retained graph in place"),
    "writes-targets": ("refused", "changed the targets of the test query in place"),
    "writes-request": ("refused", "changed the ids of the request in place"),
    "draws": ("ok", "The method changed the global random numbers of torch, now put back."),
    "seeds": ("ok", "The method changed the global random numbers of NumPy"),
    "settings": ("ok", "The method changed the current folder, now put back."),
    "prints": ("ok", ""),
}
FORKING = {"forks": ("ok", ""), "leaves": ("ok", "The method left 1 processes running")}


@pytest.fixture
def bad(command: Any, install: Write) -> Any:
    """Give the command line with the methods that misbehave installed."""
    install("ub-bad", MISBEHAVING)
    return command


def same(one: unlearnbench.Record, other: unlearnbench.Record) -> bool:
    """Tell whether two records are equal but for times, memory and provenance."""
    names = ("key", "status", "label", "cell", "requests", "metrics", "counts", "partition", "digests", "claim")
    return all(getattr(one, name) == getattr(other, name) for name in names)


@pytest.mark.slow
def test_every_wrong_method_has_its_status_and_the_others_are_unharmed(
    bad: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A row stands in one line.
    monkeypatch.setenv("COLUMNS", "200")
    cases = dict(WRONG)
    if hasattr(os, "fork"):
        monkeypatch.setenv("TOY_LEAVES", str(tmp_path / "left"))
        cases |= FORKING
    # The sound ones stand first and last: alone, and after all the others.
    sound = ("sisa", *cases, "graphrevoker")
    told = bad("run", "-m", ",".join(sound), *ONCE, *SHARDS, "--out", "out")
    assert told.code == 1
    failed = sum(status in ("error", "oom") for status, _ in cases.values())
    assert f" {failed} failed, 4 refused, 1 diverged; 0 were there already." in told.err
    records = {name: record for (name, _), record in records_of(tmp_path / "out").items()}
    assert set(records) == {"retrain", *sound}
    for name, (status, said) in cases.items():
        record = records[name]
        text = " ".join(record.notes) + (record.error["message"] if record.error else "")
        assert (name, record.status) == (name, status), text
        assert said in text, name
        assert bool(record.metrics) == (status == "ok")
    assert "printed by a method" not in told.out
    assert "printed by a method" in told.err
    # None but those that came to a sound end has a place in the table.
    rows = {line.split()[0]: line.split()[1:3] for line in told.out.splitlines() if line}
    for name, (status, _) in cases.items():
        if status in ("error", "oom"):
            assert name not in rows, name
        elif status != "ok":
            assert rows[name] == ["0/1", status], name

    # What was put back: the folder, the settings of torch, and its generator; nothing else wrote there.
    assert Path.cwd() == tmp_path
    assert torch.get_default_dtype() == torch.float32
    assert torch.get_num_threads() == 1
    assert torch.is_grad_enabled()
    assert not torch.are_deterministic_algorithms_enabled()
    if (tmp_path / "left").exists():
        left = psutil.Process(int((tmp_path / "left").read_text()))
        left.kill()
    # Another history of the global generators gives the same numbers.
    random.random()
    torch.rand(1)
    np.random.rand()  # noqa: NPY002 - the global one is meant
    alone = bad("run", "-m", "graphrevoker,draws", *ONCE, *SHARDS, "--no-reference", "--out", "alone")
    assert alone.code == 0
    for (name, _), record in records_of(tmp_path / "alone").items():
        assert same(record, records[name]), name


class Holding(unlearnbench.Unlearner):
    """Holds a large tensor, in a circle too, when memory runs out."""

    name = "holding"
    held: list[weakref.ref[torch.Tensor]] = []

    def fit(self, task: Any) -> None:
        self.large = torch.zeros(1000, 1000)
        self.circle = [self.large, self]
        self.held.append(weakref.ref(self.large))

    def unlearn(self, request: Any, retained: Any) -> None:
        raise self.error

    def predict(self, query: Any) -> torch.Tensor:
        return torch.zeros(len(query.targets), query.graph.num_classes).log_softmax(dim=1)

    def state(self) -> dict[str, torch.Tensor]:
        return {"members/000/large": self.large}


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        MemoryError("no room"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you"),
    ],
)
def test_what_a_cell_held_that_ran_out_of_memory_is_gone_before_the_next(tmp_path: Path, error: Exception) -> None:
    from cell_samples import GRAPH, cell, fake, surroundings

    from unlearnbench.records.store import Store
    from unlearnbench.running.execute import do_cell
    from unlearnbench.running.runner import run_cell

    Holding.error, Holding.held = error, []
    gc.disable()  # so that a collection by chance is not what frees it
    try:
        record = do_cell(cell(fake(Holding)), GRAPH, surroundings(), Store(tmp_path, "m-test"), None, run_cell)
    finally:
        gc.enable()
    assert record.status == "oom"
    (held,) = Holding.held
    error.__traceback__ = None  # this list of cases holds the error itself
    gc.collect()
    assert held() is None


def test_other_runtime_errors_are_not_taken_for_a_lack_of_memory() -> None:
    from unlearnbench.running.process_guard import is_out_of_memory

    assert not is_out_of_memory(RuntimeError("size mismatch"))
    assert not is_out_of_memory(ValueError("CUDA out of memory"))


POSIX = pytest.mark.skipif(os.name == "nt", reason="signals and forks of POSIX")


@pytest.mark.long
@pytest.mark.slow
@POSIX
def test_what_ends_the_process_of_a_cell_or_never_returns_is_recorded(
    bad: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOY_HANGS", str(tmp_path / "hangs"))
    lost = "exits,vanishes,dies,crashes"
    told = bad("run", "-m", f"{lost},steady", *ONCE, "--isolate", "--jobs", "2", "--no-reference", "--out", "out")
    assert told.code == 1
    assert "5 cells: 1 ok, 4 failed, 0 refused, 0 diverged" in told.err
    records = {name: record for (name, _), record in records_of(tmp_path / "out").items()}
    expected = {
        "exits": (137, "with exit code 137 (128 + SIGKILL: the system may have run out of memory)"),
        "vanishes": (0, "with exit code 0 before it had a record"),
        "dies": (-9, "by signal 9 (SIGKILL: the system may have run out of memory)"),
        "crashes": (-11, "by signal 11 (SIGSEGV)"),
    }
    for name, (code, said) in expected.items():
        record = records[name]
        assert record.status == "killed", record
        assert record.error is not None
        assert said in record.error["message"]
        assert record.provenance["exit_code"] == code
        assert record.metrics == {}
    # Where it crashed stands in the record.
    assert "Fatal Python error: Segmentation fault" in records["crashes"].error["traceback"]
    assert "in unlearn" in records["crashes"].error["traceback"]
    assert records["steady"].status == "ok"
    # They ran beside each other: their times are marked, and stand in no table.
    assert records["steady"].provenance["backend"] == "processes"
    assert records["steady"].provenance["exclusive"] is False
    assert "did not run one after the other" in told.out

    before = files_of(tmp_path / "out")
    for limit in (10, 40, 160):  # a slow machine takes longer to come to where it hangs
        arguments = ("run", "-m", "hangs,steady", *ONCE, "--cell-timeout", str(limit), "--no-reference", "--out", "out")
        told = bad(*arguments)
        assert told.code == 1
        if (tmp_path / "hangs").exists():
            break
    assert f"hangs repetition 0: timeout: TimeoutError: Its process was ended after {limit} s" in told.err
    assert "1 were there already" in told.err
    late = records_of(tmp_path / "out")["hangs", 0]
    assert late.status == "timeout"
    assert late.error is not None
    assert "in unlearn" in late.error["traceback"]
    assert {path: files_of(tmp_path / "out")[path] for path in before} == before
    assert_gone(int((tmp_path / "hangs").read_text()))


def assert_gone(group: int) -> None:
    """Assert that no process of a group is left."""
    until = time.monotonic() + WAIT_SECONDS
    while True:
        left = [process for process in psutil.process_iter() if belongs(process, group)]
        if not left:
            return
        assert time.monotonic() < until, left
        time.sleep(0.05)


def belongs(process: psutil.Process, group: int) -> bool:
    try:
        return os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE
    except (OSError, psutil.Error):
        return False


@pytest.mark.slow
@POSIX
def test_records_of_isolated_cells_equal_the_others_but_for_times(bad: Any, tmp_path: Path) -> None:
    # `draws` takes its numbers from the global generators, which another cell has used before.
    methods = "draws,grapheraser[partitioner=bekm[slack=0.2],num_shards=3]"
    arguments = ("run", "-m", methods, *ONCE, "--no-reference", "--save-state")
    assert bad(*arguments, "state-here", "--out", "here").code == 0
    assert bad(*arguments, "state-there", "--out", "there", "--isolate").code == 0
    here, there = records_of(tmp_path / "here"), records_of(tmp_path / "there")
    assert set(here) == set(there)
    assert len(here) == 2
    for place, record in here.items():
        other = there[place]
        assert same(record, other), place
        assert other.provenance["isolated"] is True
        assert other.provenance["backend"] == "serial"
        assert other.provenance["scored_outside"] is True
        outer = sum(row["seconds"] for row in other.phases if row["name"] in HARNESS_PHASES)
        assert other.provenance["process_seconds"] > outer
        more = {"isolated", "scored_outside", "process_seconds"}
        assert other.provenance.keys() == record.provenance.keys() | more
        states = [
            unlearnbench.load_state(tmp_path / folder / f"{record.key}.pt").weights
            for folder in ("state-here", "state-there")
        ]
        assert states[0].keys() == states[1].keys()
        assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    arrays = [{path.name: path.read_bytes() for path in (tmp_path / out).rglob("*.npz")} for out in ("here", "there")]
    assert arrays[0].keys() == arrays[1].keys()
    assert arrays[0] == arrays[1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--cell-timeout", "0"), "cell_timeout = 0.0"),
        (("--cell-timeout", "-1"), "cell_timeout = -1.0"),
        (("--cell-timeout", "nan"), "cell_timeout = nan"),
        (("--cell-timeout", "inf"), "cell_timeout = inf"),
        (("--jobs", "0"), "jobs = 0"),
        (("--jobs", "many"), "--jobs"),
    ],
)
def test_limits_that_mean_nothing_are_refused(
    command: Any, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    told = command("run", "-m", "steady", *ONCE, *arguments, "--out", str(tmp_path / "out"))
    assert told.code == 2
    assert said in told.err
    assert not (tmp_path / "out").exists()
