"""Keeps what this process has for itself, handlers of signals above all, from processes that methods fork."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, eq=False)
class _Own:
    undo: Callable[[], None]
    number: signal.Signals | None
    lock: threading.Lock = field(default_factory=threading.Lock)


_own: list[_Own] = []
_forking = threading.local()


@contextlib.contextmanager
def undone_in_forks(undo: Callable[[], None], number: signal.Signals | None = None) -> Iterator[threading.Lock]:
    """While inside, have every process that is forked from this one call `undo` before anything else.

    A signal that has a handler here is blocked across the fork: the child cannot receive it before the handler
    is gone.

    Yields:
        A lock; no process is forked while a thread holds it.
    """
    own = _Own(undo, number)
    _own.append(own)
    try:
        yield own.lock
    finally:
        with contextlib.suppress(ValueError):  # in a forked process the list is empty
            _own.remove(own)


@contextlib.contextmanager
def handling(number: signal.Signals, handler: Callable[..., None]) -> Iterator[None]:
    """Handle a signal by `handler` while inside, in this process alone."""
    before = signal.signal(number, handler)

    def undo() -> None:
        signal.signal(number, signal.SIG_DFL if before is None else before)

    try:
        with undone_in_forks(undo, number):
            yield
    finally:
        undo()


def _before() -> None:
    _forking.own = list(_own)
    for own in _forking.own:
        own.lock.acquire()
    numbers = {own.number for own in _forking.own if own.number is not None}
    _forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)


def _after() -> None:
    for own in _forking.own:
        own.lock.release()
    signal.pthread_sigmask(signal.SIG_SETMASK, _forking.mask)


def _in_child() -> None:
    for own in _forking.own:
        own.undo()
    _own.clear()
    _after()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_in_child)
