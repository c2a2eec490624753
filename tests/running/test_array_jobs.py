"""G4: cached cells, limits, interruptions and array jobs, as far as one machine shows them."""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from cell_samples import cell
from command_line import ONCE, SMALL, WAIT_SECONDS, Process, command, files_of, install, records_of
from hypothesis import given
from hypothesis import strategies as st
from misbehaving_samples import MISBEHAVING

from unlearnbench.errors import NothingMatchedError
from unlearnbench.running.backends import processes, worker
from unlearnbench.running.backends.order import CellOrder
from unlearnbench.running.backends.processes import Processes
from unlearnbench.running.backends.received import Ended
from unlearnbench.running.config import make_config
from unlearnbench.running.plan import Plan, take_shard

pytestmark = pytest.mark.slow

__all__ = ["command", "install"]

POSIX = pytest.mark.skipif(os.name == "nt", reason="signals and forks of POSIX")


class Here:
    """Stands for the processes of cells: does their work in this one, and takes note of it."""

    def __init__(self) -> None:
        self.orders: list[CellOrder] = []
        self.most = self._now = 0
        self._lock = threading.Lock()

    def run(self, processes: Processes, order: CellOrder, seconds: float | None, sealed: bytes = b"") -> Ended:
        received = CellOrder.from_json(order.to_json())
        assert received == order  # nothing but what JSON knows
        with self._lock:
            self.orders.append(received)
            self._now += 1
            self.most = max(self.most, self._now)
        time.sleep(0.05)
        with self._lock:
            # What is done in threads here is done in processes else: one at a time.
            saved = worker.work(received, sealed)
            self._now -= 1
        return Ended(0, {"saved": saved}, "", True, "2026-01-01T00:00:00+00:00")


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Here:
    found = Here()
    monkeypatch.setattr(Processes, "run", lambda *arguments: found.run(*arguments))
    return found


def test_cells_that_are_there_are_not_sent_anywhere(command: Any, tmp_path: Path, here: Here) -> None:
    arguments = (*SMALL, "--repetitions", "2", "--no-reference", "--out", "out")
    assert command("run", "-m", "steady,twin", *arguments).code == 0
    before = files_of(tmp_path / "out")
    told = command("run", "-m", "steady,twin,frozen", *arguments, "--isolate")
    assert told.code == 0
    assert "6 cells: 6 ok, 0 failed, 0 refused, 0 diverged; 4 were there already." in told.err
    sent = [order.cell["cell"] for order in here.orders]
    assert [(cell["method"]["distribution"], cell["method"]["name"]) for cell in sent] == [("ub-toys", "frozen")] * 2
    assert [cell["repetition"] for cell in sent] == [0, 1]
    assert {path: files_of(tmp_path / "out")[path] for path in before} == before


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_no_more_cells_run_at_once_than_were_asked_for(command: Any, tmp_path: Path, here: Here, jobs: int) -> None:
    flags = ("--jobs", str(jobs)) if jobs > 1 else ("--isolate",)
    told = command("run", "-m", "steady,twin,failing", *SMALL, "--repetitions", "2", *flags, "--out", "out")
    assert told.code == 0
    assert "8 cells: 8 ok" in told.err
    assert here.most == jobs
    backends = {record.provenance["backend"] for record in records_of(tmp_path / "out").values()}
    assert backends == ({"processes"} if jobs > 1 else {"serial"})
    assert all(record.provenance["exclusive"] is False for record in records_of(tmp_path / "out").values()) or jobs == 1
    assert ("(--jobs): it gives no times" in " ".join(records_of(tmp_path / "out")["steady", 0].notes)) == (jobs > 1)
    # Beside each other they give no times; one after the other they do.
    time_table = command("report", "out", "--table", "time").out
    assert ("8 records give no times: they did not run one after the other." in time_table) == (jobs > 1)


def test_an_audit_is_sent_too(command: Any, tmp_path: Path, here: Here) -> None:
    told = command(
        "audit", "exactness", "-m", "sisa[num_shards=3]", *ONCE, "--isolate", "--no-estimate", "--out", "out"
    )
    assert told.code == 0, told.err
    assert {order.cell["cell"]["audit"]["name"] for order in here.orders} == {"exactness"}
    records = records_of(tmp_path / "out")
    assert all(record.is_audit and record.status == "ok" for record in records.values())
    assert len(records) == len(here.orders) == 2


def test_an_error_that_all_cells_would_meet_stops_the_run(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = []

    def refuse(processes: Processes, order: CellOrder, seconds: float | None, sealed: bytes) -> Ended:
        sent.append(order)
        said = {"error": "other versions here", "hint": "install the same", "exit_code": 2}
        return Ended(0, said, "", True, "2026-01-01T00:00:00+00:00")

    monkeypatch.setattr(Processes, "run", refuse)
    told = command("run", "-m", "steady,twin", *ONCE, "--isolate", "--out", "out")
    assert told.code == 2
    assert told.err.splitlines()[-2:] == ["error: other versions here", "hint: install the same"]
    assert len(sent) == 1
    assert records_of(tmp_path / "out") == {}


def test_a_dataset_that_changed_meanwhile_is_refused(command: Any, tmp_path: Path, here: Here) -> None:
    assert command("run", "-m", "steady", *ONCE, "--isolate", "--no-reference", "--out", "out").code == 0
    order = here.orders[0]
    from unlearnbench.errors import UsageError
    from unlearnbench.registry.loading import load_catalogue
    from unlearnbench.running import cell_codec

    canonical = order.cell["cell"]
    other = {**canonical, "dataset": {**canonical["dataset"], "sha256": "00" * 32}}
    plain = {**order.cell, "cell": other, "key": ""}
    with pytest.raises(UsageError) as caught:
        cell_codec.cell_from_plain(plain, load_catalogue())
    plain["key"] = caught.value.message.split("here it is cell ")[1].split(",")[0]
    with pytest.raises(UsageError, match="Dataset toy is not the graph it was when the run began"):
        worker.work(replace(order, cell=plain, sealed=0))


@pytest.mark.slow
def test_three_array_jobs_do_every_cell_once(command: Any, tmp_path: Path) -> None:
    arguments = ("run", "-m", "steady,twin", *SMALL, "--repetitions", "3", "--out", "out")
    (tmp_path / "work").mkdir()
    jobs = [Process(tmp_path / "work", *arguments, "--shard", f"{part}/3") for part in (1, 2, 3)]
    try:
        told = [job.end() for job in jobs]
    finally:
        for job in jobs:
            job.stop()
    assert [one.code for one in told] == [0, 0, 0]
    # All were there once, and each job did three: none twice.
    assert all("3 cells: 3 ok, 0 failed, 0 refused, 0 diverged; 0 were there already." in one.err for one in told)
    out = tmp_path / "work" / "out"
    assert len(records_of(out)) == 9
    before = files_of(out)
    whole = command(*arguments[:-1], str(out))
    assert "9 cells: 9 ok, 0 failed, 0 refused, 0 diverged; 9 were there already." in whole.err
    assert files_of(out) == before


def test_what_is_there_does_not_move_cells_between_shards(command: Any, tmp_path: Path) -> None:
    arguments = ("run", "-m", "steady,twin", *SMALL, "--repetitions", "3", "--no-reference", "--out", "out")

    def listed(part: int) -> list[str]:
        told = command(*arguments, "--shard", f"{part}/2", "--dry-run")
        assert told.code == 0
        return [line.split()[0] for line in told.out.splitlines()]

    before = [listed(1), listed(2)]
    assert not set(before[0]) & set(before[1])
    assert len(before[0]) == len(before[1]) == 3
    assert command(*arguments, "--shard", "2/2").code == 0
    assert [listed(1), listed(2)] == before
    assert command(*arguments, "--shard", "1/2").code == 0
    assert len(records_of(tmp_path / "out")) == 6


CELLS = [cell(("retrain", "sisa", "noop")[at % 3], repetition=at // 3) for at in range(20)]


def plan(count: int, missing: set[int]) -> Plan:
    cells = CELLS[:count]
    wanted = [one for at, one in enumerate(cells) if at in missing]
    return Plan(cells, wanted, {}, None, None, make_config({}), {})  # type: ignore[arg-type]


@given(st.integers(1, 20), st.integers(1, 25), st.sets(st.integers(0, 19)))
def test_shards_are_a_partition_of_the_cells_whatever_is_there(count: int, parts: int, missing: set[int]) -> None:
    whole = plan(count, missing)
    sizes, found, wanted = [], [], []
    for part in range(1, parts + 1):
        try:
            one = take_shard(whole, (part, parts))
        except NothingMatchedError:
            sizes.append(0)
            continue
        sizes.append(len(one.cells))
        found += one.cells
        wanted += one.wanted
        assert [each for each in whole.cells if each in one.cells] == one.cells
        assert [each for each in one.cells if each in whole.wanted] == one.wanted
    assert sorted(map(id, found)) == sorted(map(id, whole.cells))
    assert sorted(map(id, wanted)) == sorted(map(id, whole.wanted))
    assert max(sizes) - min(sizes) <= 1
    assert take_shard(whole, None) is whole


def test_methods_of_one_repetition_stay_together_where_there_are_repetitions_enough() -> None:
    whole = plan(18, set())
    for part in (1, 2, 3):
        repetitions = [one.repetition for one in take_shard(whole, (part, 3)).cells]
        assert sorted(repetitions) == sorted(2 * (part - 1) + at // 3 for at in range(6))


@pytest.mark.parametrize("value", ["0/3", "4/3", "1/0", "3", "a/b", "-1/3", "1/3/5", "1/", "", " 1/3", "1.0/3", "¹/3"])
def test_a_shard_that_is_none_is_refused(command: Any, tmp_path: Path, value: str) -> None:
    told = command("run", "-m", "steady", *ONCE, f"--shard={value}", "--out", "out")
    assert told.code == 2
    assert f"shard = {value!r}: Value error, expected i/n with 1 <= i <= n, such as 2/8" in told.err
    assert not (tmp_path / "out").exists()


def test_a_shard_without_a_cell_is_told(command: Any, tmp_path: Path) -> None:
    told = command("run", "-m", "steady", *ONCE, "--shard", "1/3", "--out", "out")
    assert told.code == 3
    assert "--shard 1/3: there are 2 cells, and none of them falls to this part." in told.err
    assert "Use at most 2 parts." in told.err
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@POSIX
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGKILL, -9)])
def test_no_process_of_a_cell_outlives_its_run(command: Any, tmp_path: Path, number: signal.Signals, code: int) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    assert command("run", "-m", "steady", *ONCE, "--no-reference", "--out", str(folder / "out")).code == 0
    before = files_of(folder / "out")
    arguments = ("run", "-m", "steady,hangs,twin", *ONCE, "--isolate", "--no-reference", "--out", "out")
    hangs = folder / "hangs"
    process = Process(folder, *arguments, more={"ub-bad": MISBEHAVING}, TOY_HANGS=str(hangs))
    try:
        process.wait_for(hangs)
        until = time.monotonic() + WAIT_SECONDS
        while not hangs.read_text():
            assert time.monotonic() < until
            time.sleep(0.01)
        group = int(hangs.read_text())
        assert group in [child.pid for child in psutil.Process(process.pid).children()]
        assert len(members(group)) == 2  # the method forked, too
        process.send(number)
        told = process.end()
    finally:
        process.stop()
    assert told.code == code
    until = time.monotonic() + WAIT_SECONDS
    while members(group):
        assert time.monotonic() < until, members(group)
        time.sleep(0.05)
    if number != signal.SIGKILL:
        assert told.err.splitlines()[-1].startswith("interrupted: ")
        assert "Traceback" not in told.err
    assert files_of(folder / "out") == before


def members(group: int) -> list[psutil.Process]:
    """List the processes of a group that have not ended."""

    def belongs(process: psutil.Process) -> bool:
        try:
            return os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE
        except (OSError, psutil.Error):
            return False

    return [process for process in psutil.process_iter() if belongs(process)]


def test_a_system_that_starts_no_process_is_told(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **settings: Any) -> None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(processes.subprocess, "Popen", refuse)
    told = command("run", "-m", "steady", *ONCE, "--jobs", "2", "--out", "out")
    assert told.code == 1
    assert f"error: No process could be started for a cell: {os.strerror(errno.EAGAIN)}." in told.err
    assert "Use fewer --jobs" in told.err


@POSIX
def test_nothing_is_started_once_all_was_ended() -> None:
    started = processes.Processes()
    started.end()
    order = CellOrder(
        cell={},
        disable_plugins=[],
        provenance={},
        device="cpu",
        threads=1,
        deterministic=False,
        data_root=None,
        out="out",
        save_state=None,
        machine="m-000000",
        log=False,
        backend="serial",
        unfinished=None,
        sealed=0,
        python_path=None,
    )
    ended = started.run(order, None)
    assert (ended.code, ended.answer) == (-signal.SIGKILL, {})
