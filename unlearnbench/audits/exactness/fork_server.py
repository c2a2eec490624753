"""Carries out calls, each in a fork of this process: `python -m unlearnbench.audits.exactness.fork_server`.

This process imports what all methods need, trains nothing and imports no plugin, so that every fork is as
a fresh process, without the seconds that the imports take. Standard input has one line for each call, the
folder with its pickle and settings; standard output one line for each end. `own_process` starts it.
"""

from __future__ import annotations

import json
import os
import pickle
import select
import signal
import sys
import tempfile
import traceback
from pathlib import Path
from typing import IO, Any

import torch

import unlearnbench.audits.streams.serving  # noqa: F401 - imported once for all forks, with what all runs need
from unlearnbench.audits.exactness import copies
from unlearnbench.measure.allocator import steady_allocator
from unlearnbench.running.process_guard import seeded_process_state

_CAN_FORK = hasattr(os, "fork")
_POLL_SECONDS = 0.02
# Without these, what a method writes for its user goes below its home.
_OTHER_HOMES = ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "TORCH_HOME", "HF_HOME")


def main() -> None:
    """Serve until standard input ends; where processes cannot be forked, serve a single call."""
    calls, answers = os.fdopen(os.dup(0), "rb", buffering=0), os.dup(1)
    # A method must neither read the calls nor write into the answers.
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    steady_allocator()
    # Torch imports its compiler where an optimiser is made, which takes a second: once, not in every fork.
    torch.optim.SGD([torch.zeros(1)], lr=1.0)
    while line := calls.readline():
        folder = Path(os.fsdecode(line.rstrip(b"\n")))
        if not _CAN_FORK:
            carry_out(folder)
        ended = _forked(folder, calls) if _CAN_FORK else "served"
        os.write(answers, f"{ended}\n".encode())
        if not _CAN_FORK:
            break


def carry_out(folder: Path) -> None:
    """Make the call that a folder holds, in folders below it, and write there what it returns or raises."""
    settings = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
    for name in copies.FOLDERS:
        (folder / name).mkdir()
    for name in _OTHER_HOMES:
        os.environ.pop(name, None)
    home, temporary = str(folder / "home"), str(folder / "tmp")
    os.environ.update(HOME=home, USERPROFILE=home, TMPDIR=temporary, TEMP=temporary, TMP=temporary)
    os.environ.pop("PYTHONPATH", None)
    os.environ.update({} if settings["python_path"] is None else {"PYTHONPATH": settings["python_path"]})
    tempfile.tempdir = None
    os.chdir(folder / "work")
    copies.begin(folder)
    sys.path[:] = settings["path"]
    torch.set_num_threads(settings["threads"])
    answer: copies.Answer
    try:
        function, args = pickle.loads((folder / "call.pickle").read_bytes())
    except Exception as error:  # importing a plugin may fail in any way
        answer = {"unreadable": f"{type(error).__name__}: {error}"}
    else:

        def seeded() -> Any:
            # The device only matters for random numbers of a GPU, which no process has drawn before.
            with seeded_process_state(settings["seed"], torch.device("cpu"), settings["deterministic"]):
                return function(*args)

        answer = copies.answer_to(seeded)
    torch.save(answer, folder / "answer.part")
    os.replace(folder / "answer.part", folder / "answer.pt")


def _forked(folder: Path, calls: IO[bytes]) -> str:
    """Carry out a call in a fork and return how that ended; end with it if the parent ends."""
    process = os.fork()
    if process == 0:
        code = 1
        try:
            carry_out(folder)
            code = 0
        except BaseException:  # also a method that ends its process
            traceback.print_exc()
        sys.stderr.flush()
        os._exit(code)
    while True:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return f"exit code {os.waitstatus_to_exitcode(status)}"
        # The parent sends nothing while it waits: a readable input is its end.
        if select.select([calls], [], [], _POLL_SECONDS)[0]:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            os._exit(1)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    main()
