"""Copies of a run's process: each is as the training left it, and what copies would share rules them out."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import remembering_methods as remembering
import torch

from unlearnbench.audits.exactness.copies import Copies
from unlearnbench.audits.exactness.own_process import in_own_process, value_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are copied on Linux alone"),
]
PLACES = (Path.home, Path.cwd, lambda: Path(tempfile.gettempdir()))
KEPT: list[Any] = []


def _use() -> list[Any]:
    """Note that this was called, wherever a method could; return what is found, and random numbers."""
    found: list[Any] = [sorted(remembering.MEMBERS), float(torch.rand(1)), os.getpid()]
    found += [sorted(path.name for path in place().iterdir()) for place in PLACES]
    remembering.MEMBERS["copy"] = 1
    for place in PLACES:
        (place() / "left.txt").write_text("fit")
        (place() / "copy.txt").touch()
        (place() / "folder" / "inner.txt").unlink(missing_ok=True)
    return found


def _copied() -> Any:
    copies = Copies()
    remembering.MEMBERS["fit"] = 1
    torch.rand(5)
    for place in PLACES:
        (place() / "left.txt").touch()
        (place() / "folder").mkdir()
        (place() / "folder" / "inner.txt").touch()
    assert copies.why_not() == ""
    first, second = (value_of(one) for one in copies.answers([_use, _use]))
    return [first, second, _use()]


def test_each_copy_finds_what_the_training_left_and_nothing_of_other_copies() -> None:
    first, second, last = in_own_process(1, _copied)
    assert first[:2] == second[:2] == last[:2]
    assert first[0] == ["fit"]
    assert len({first[2], second[2], last[2], os.getpid()}) == 4
    assert first[3:] == second[3:] == [["folder", "left.txt"]] * 3


def _faulty() -> Any:
    def refuse() -> None:
        raise ValueError("wrong")

    return Copies().answers([refuse, lambda: os._exit(3), lambda: [torch.ones(2)]])


def test_what_a_copy_raises_or_how_it_ends_is_its_answer() -> None:
    refused, ended, right = in_own_process(1, _faulty)
    with pytest.raises(ValueError, match=r"^wrong\n"):
        value_of(refused)
    with pytest.raises(RuntimeError, match=r"ended before it had a result \(exit code 3\)"):
        value_of(ended)
    assert torch.equal(value_of(right)[0], torch.ones(2))


def _thread() -> None:
    KEPT.append(threading.Thread(target=threading.Event().wait, daemon=True))
    KEPT[-1].start()


def _process() -> None:
    KEPT.append(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE))


def _file() -> None:
    KEPT.append(tempfile.TemporaryFile())  # noqa: SIM115


def _memory() -> None:
    KEPT.append(mmap.mmap(-1, 4096))


def _why_not(use: Callable[[], None]) -> str:
    copies = Copies()
    use()
    reason = copies.why_not()
    if use is _process:
        KEPT[-1].communicate(b"\n")
    return reason


@pytest.mark.parametrize(
    ("use", "reason"),
    [
        (_thread, "it has several threads"),
        (_process, "it has started processes"),
        (_file, "it holds open files"),
        (_memory, "it holds memory that processes share"),
    ],
)
def test_what_copies_would_share_rules_them_out(use: Callable[[], None], reason: str) -> None:
    assert in_own_process(1, _why_not, use) == reason


def test_a_process_that_was_not_made_for_a_run_is_not_copied() -> None:
    assert Copies().why_not() == "this process was not made to be copied"
