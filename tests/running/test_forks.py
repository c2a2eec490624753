"""Nothing process-wide of the harness reaches processes that a method starts."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from command_line import ONCE, WAIT_SECONDS, Process, records_of
from rich.console import Console

from unlearnbench.running.forks import handling, undone_in_forks
from unlearnbench.running.progress import cell_bar, redrawn

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not hasattr(os, "fork"), reason="forks of POSIX")]
TRIES = 50

POOLING = f"""
import json
import os
import signal
import subprocess
import sys
from multiprocessing import get_context
from pathlib import Path

from ub_toys import Steady

from unlearnbench import hookimpl


class Pooling(Steady):
    '''Ends {TRIES} pools by SIGTERM, as `Pool` does.'''

    name = "pooling"

    def unlearn(self, request, retained):
        super().unlearn(request, retained)
        for _ in range({TRIES}):
            with get_context("fork").Pool(2) as pool:
                assert pool.map(abs, [-1, 2]) == [1, 2]


SEEN = "import json, os, signal; print(json.dumps(["\\
    "sorted(os.environ), sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, [])))]))"


def of_a_fork():
    import faulthandler

    handlers = [str(signal.getsignal(number)) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)]
    mask = sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, [])))
    return [sorted(os.environ), mask, handlers, faulthandler.is_enabled(), type(sys.stderr).__name__]


class Looking(Steady):
    '''Notes what processes that it starts get.'''

    name = "looking"

    def unlearn(self, request, retained):
        super().unlearn(request, retained)
        started = subprocess.run([sys.executable, "-c", SEEN], stdout=subprocess.PIPE, check=True)
        with get_context("fork").Pool(1) as pool:
            forked = pool.apply(of_a_fork)
        Path(os.environ["TOY_SEEN"]).write_text(json.dumps([json.loads(started.stdout), forked]))


@hookimpl
def register_unlearners(register):
    register(Pooling)
    register(Looking)
"""


@pytest.mark.parametrize("way", ["here", "isolated"])
def test_a_pool_that_forks_never_hangs(tmp_path: Path, way: str) -> None:
    arguments = ("run", "-m", "pooling", *ONCE, "--no-reference", *(["--isolate"] if way == "isolated" else []))
    process = Process(tmp_path, *arguments, more={"ub-pooling": POOLING})
    try:
        told = process.end()
    finally:
        process.stop()
    assert told.code == 0, told.err
    assert "Traceback" not in told.err + told.out
    assert "KeyboardInterrupt" not in told.err
    ((_, record),) = records_of(tmp_path / "runs").items()
    assert record.status == "ok"


@pytest.mark.long
def test_children_get_no_handler_mask_or_variable_of_the_harness(tmp_path: Path) -> None:
    seen = {}
    for way in ([], ["--isolate"], ["--deterministic"]):
        place = tmp_path / f"seen-{len(seen)}"
        process = Process(
            tmp_path, "run", "-m", "looking", *ONCE, "--no-reference", "--overwrite", "always", *way,
            # torch sets the second once something imports its compiler, as determinism does.
            more={"ub-pooling": POOLING}, TOY_SEEN=str(place), TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "inductor"),
        )  # fmt: skip
        told = process.end()
        assert told.code == 0, told.err
        started, forked = json.loads(place.read_text())
        assert started[1] == forked[1] == [], way
        assert forked[2] == [str(signal.SIG_DFL), str(signal.default_int_handler), str(signal.SIG_DFL)]
        assert forked[3:] == [False, "TextIOWrapper"]
        seen[" ".join(way)] = set(started[0])
    # cuBLAS reads it in the method's own process and in those that it starts.
    assert seen["--deterministic"] - seen[""] == {"CUBLAS_WORKSPACE_CONFIG"}
    assert seen["--isolate"] == seen[""]
    assert "CUBLAS_WORKSPACE_CONFIG" not in os.environ


def in_child(work: Any) -> str:
    """Fork, and return what the child's work gives as text."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writing, str(work()).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        text = file.read()
    assert os.waitpid(pid, 0)[1] == 0
    return text


def test_a_handler_is_of_this_process_alone_and_the_signal_mask_is_kept() -> None:
    before = signal.getsignal(signal.SIGUSR1)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    try:
        with handling(signal.SIGUSR1, lambda *_: None):
            assert in_child(lambda: signal.getsignal(signal.SIGUSR1) == before) == "True"
            assert in_child(lambda: signal.pthread_sigmask(signal.SIG_BLOCK, []) == {signal.SIGUSR2}) == "True"
            assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == {signal.SIGUSR2}
            assert signal.getsignal(signal.SIGUSR1) != before
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR2})
    assert signal.getsignal(signal.SIGUSR1) == before


def test_no_process_is_forked_while_a_lock_of_ours_is_held() -> None:
    undone: list[int] = []
    with undone_in_forks(lambda: undone.append(1)) as lock:
        held, go = threading.Event(), threading.Event()

        def hold() -> None:
            with lock:
                held.set()
                go.wait(WAIT_SECONDS)

        thread = threading.Thread(target=hold)
        thread.start()
        assert held.wait(WAIT_SECONDS)
        threading.Timer(0.05, go.set).start()
        assert in_child(lambda: (lock.locked(), undone)) == "(False, [1])"
        assert go.is_set()
        thread.join()
    assert undone == []
    assert in_child(lambda: undone) == "[]"


def test_what_a_forked_process_prints_goes_past_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(file=io.StringIO(), width=80, force_terminal=True)
    behind = io.StringIO()
    monkeypatch.setattr(sys, "stderr", behind)
    with cell_bar(console) as bar, redrawn(bar):
        assert sys.stderr is not behind
        assert in_child(lambda: sys.stderr is behind) == "True"
    assert sys.stderr is behind
    assert [thread for thread in threading.enumerate() if thread.name == "unlearnbench-progress"] == []


def test_a_command_started_without_a_fork_has_the_default_handlers() -> None:
    with handling(signal.SIGTERM, lambda *_: None):
        code = "import signal; print(signal.getsignal(signal.SIGTERM) == signal.SIG_DFL)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
