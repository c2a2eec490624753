"""Calls a function in a process of its own, in which no method was trained before, with folders of its own."""

from __future__ import annotations

import atexit
import builtins
import contextlib
import json
import os
import pickle
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from unlearnbench import errors
from unlearnbench.audits.exactness.copies import Answer, ended_without_result

_SERVER = "unlearnbench.audits.exactness.fork_server"


class NotImportableError(Exception):
    """Another process cannot import a class of the call, such as one that a script or a notebook defines."""


def in_own_process(seed: int, function: Callable[..., Any], *args: Any) -> Any:
    """Return what a function of a module returns in a new process.

    The process has the same search path and torch settings as this one, imports whatever the arguments need
    by itself, and has its own home, temporary folder and working directory, which are deleted at its end.

    Args:
        seed: Of its global random generators.
        function: It returns tensors, numbers and text in tuples, lists and dicts.
        args: They are pickled.

    Raises:
        NotImportableError: It cannot import the function or an argument.
        Exception: What the function raised; of a class that is not built in, a RuntimeError that names it.
    """
    try:
        call = pickle.dumps((function, args))
    except (pickle.PicklingError, AttributeError) as error:
        raise NotImportableError(str(error)) from error
    settings = {
        # What the process finds under a relative path would depend on its working directory.
        "path": [os.path.abspath(place) for place in sys.path],
        "python_path": os.environ.get("PYTHONPATH"),
        "seed": seed,
        "threads": torch.get_num_threads(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
    }
    with tempfile.TemporaryDirectory(prefix="unlearnbench-", ignore_cleanup_errors=True) as place:
        folder = Path(place)
        (folder / "call.pickle").write_bytes(call)
        (folder / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
        ended = _SERVER_PROCESS.carry_out(folder)
        answer = folder / "answer.pt"
        if not answer.exists():
            raise RuntimeError(ended_without_result(ended or "killed"))
        result: dict[str, Any] = torch.load(answer, weights_only=True)
    if "unreadable" in result:
        raise NotImportableError(result["unreadable"])
    return value_of(result)


def value_of(answer: Answer) -> Any:
    """Return the value in an answer of `copies`, or raise what its function raised."""
    if "error" in answer:
        raise _raised(**answer["error"])
    return answer["value"]


def start() -> None:
    """Start the process that others are forked from, if it is not running."""
    _SERVER_PROCESS.start()


class _ServerProcess:
    """The process that has imported the package and trained nothing; it ends with this one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            search_path = os.pathsep.join(os.path.abspath(place) for place in sys.path)
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", _SERVER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": search_path},
            )
        return self._process

    def carry_out(self, folder: Path) -> str:
        """Wait for the call that a folder holds; return how its process ended."""
        with self._lock:
            process = self.start()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                process.stdin.write(f"{folder}\n".encode())
                process.stdin.flush()
                ended = process.stdout.readline().decode().strip()
            except BrokenPipeError:
                return ""
            except BaseException:  # nobody waits for its answer any more
                self.end()
                raise
            if not hasattr(os, "fork"):
                self.end()
            return ended

    def end(self) -> None:
        """End it, and with it the call it is carrying out."""
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None
            assert process.stdout is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            process.wait()
            process.stdout.close()


_SERVER_PROCESS = _ServerProcess()
atexit.register(_SERVER_PROCESS.end)


def _raised(name: str, message: str, hint: str, traceback: str) -> Exception:
    known = getattr(errors, name, None) or getattr(builtins, name, None) or getattr(torch, name, None)
    error: Exception
    if isinstance(known, type) and issubclass(known, errors.UnlearnbenchError):
        error = known(message, hint)
    elif isinstance(known, type) and issubclass(known, Exception) and not issubclass(known, UnicodeError):
        error = known(message)
    else:
        error = RuntimeError(f"{name}: {message}")
    error.add_note(f"In the process of the run:\n{traceback}")
    return error
