"""Copies of the process of a run: several continuations of one training, each as if it had been trained for it alone.

A copy is a fork, so that whatever a method keeps, in its object or elsewhere in the process, is as the training left
it; and home, temporary folder and working directory are put back before each copy to what they were then.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import psutil
import torch

FOLDERS = ("home", "tmp", "work")
Answer = dict[str, Any]
_PARENT_DIED = 1  # PR_SET_PDEATHSIG of prctl(2)
# The folder of this process's call, if it is one that `fork_server` made for a call.
_own: list[Path] = []


def begin(folder: Path) -> None:
    """Note that this process was made for a call, in this folder, and may be copied."""
    _own[:] = [folder]


def answer_to(function: Callable[..., Any], *args: Any) -> Answer:
    """Return what a function returns as `{"value": ...}`, or what it raises as `{"error": ...}`."""
    try:
        return {"value": function(*args)}
    except Exception as error:  # a method may fail in any way
        message, hint = getattr(error, "message", str(error)), getattr(error, "hint", "")
        where = traceback.format_exc()
        return {"error": {"name": type(error).__name__, "message": message, "hint": hint, "traceback": where}}


def ended_without_result(how: str) -> str:
    """Return the message about a process that ended before it had a result."""
    return f"The process of a run ended before it had a result ({how})."


class Copies:
    """Makes copies of this process as it is after a training.

    It is created before the training: what the training leaves behind that copies would share, such as an open file,
    is found by comparing.
    """

    def __init__(self) -> None:
        self._files, self._memory = _open_files(), _shared_memory()

    def why_not(self) -> str:
        """Return why a copy would not be as this process itself; empty: it would be."""
        if not _own or not sys.platform.startswith("linux"):
            return "this process was not made to be copied"
        if len(os.listdir("/proc/self/task")) > 1:
            return "it has several threads"
        if psutil.Process().children():
            return "it has started processes"
        if _open_files() - self._files:
            return "it holds open files"
        if _shared_memory() - self._memory:
            return "it holds memory that processes share"
        return ""

    def answers(self, continuations: Iterable[Callable[[], Any]]) -> list[Answer]:
        """Return what each continuation returns or raises in a copy of its own, as `answer_to` does.

        They are made one after the other.
        """
        (folder,) = _own
        _put(folder, folder / "before")
        answers = []
        for number, continuation in enumerate(continuations):
            if number:
                _put(folder / "before", folder)
            answers.append(_answer_in_copy(continuation, folder / "copy.pt"))
        return answers


def _answer_in_copy(continuation: Callable[[], Any], path: Path) -> Answer:
    path.unlink(missing_ok=True)
    parent = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    if process == 0:
        code = 1
        try:
            _end_with(parent)
            part = path.with_suffix(".part")
            torch.save(answer_to(continuation), part)
            os.replace(part, path)
            code = 0
        except BaseException:  # also a method that ends its process
            traceback.print_exc()
        sys.stderr.flush()
        os._exit(code)
    _, status = os.waitpid(process, 0)
    if not path.exists():
        how = f"exit code {os.waitstatus_to_exitcode(status)}"
        message = ended_without_result(how)
        return {"error": {"name": "RuntimeError", "message": message, "hint": "", "traceback": ""}}
    answer: Answer = torch.load(path, weights_only=True)
    return answer


def _end_with(parent: int) -> None:
    """Have the kernel end this process when its parent ends."""
    ctypes.CDLL(None).prctl(_PARENT_DIED, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _put(source: Path, target: Path) -> None:
    """Make the folders of a call below `target` have the contents of those below `source`."""
    for name in FOLDERS:
        # Not the folder itself: it may be the working directory.
        for entry in os.scandir(target / name) if (target / name).exists() else ():
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                os.unlink(entry.path)
        shutil.copytree(source / name, target / name, symlinks=True, dirs_exist_ok=True)


def _open_files() -> set[tuple[str, str]]:
    """Return the numbers of the open files of this process, and what they are."""
    found = set()
    for number in os.listdir("/proc/self/fd") if Path("/proc/self/fd").exists() else ():
        with contextlib.suppress(OSError):  # that of the listing itself is closed by now
            found.add((number, os.readlink(f"/proc/self/fd/{number}")))
    return found


def _shared_memory() -> set[str]:
    """Return the mappings of this process that a copy would write into as well."""
    path = Path("/proc/self/maps")
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
    return {line for line in lines if line.split()[1].startswith("rw") and line.split()[1].endswith("s")}
