"""The errors of the package, each with a message and a hint, and the exit codes of the command line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

EXIT_OK = 0
EXIT_FAILED_CELLS = 1
EXIT_USAGE = 2
EXIT_NOTHING_MATCHED = 3
EXIT_INTERRUPTED = 130

FEW = 8
"""Up to so many names an error lists; of more it names the nearest."""


class UnlearnbenchError(Exception):
    """An error for users, in two lines: what is wrong, and what to do.

    Args:
        message: What is wrong; names the file, key, row or component.
        hint: What the user can do about it.

    Settings are named as in Python and in backquotes, `forget_ratio`; the command line prints its flags instead.
    """

    exit_code = EXIT_FAILED_CELLS

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class UsageError(UnlearnbenchError):
    """What was asked for cannot be done; nothing was started."""

    exit_code = EXIT_USAGE


class NothingMatchedError(UnlearnbenchError):
    """The command was well formed but there is nothing to work on."""

    exit_code = EXIT_NOTHING_MATCHED


class DataError(UsageError):
    """A dataset is missing, damaged or breaks a rule on entry."""


class BrokenContractError(Exception):
    """A component returned something that violates its interface: an error of its code, not of its user."""


class MissingDataError(DataError):
    """A dataset's files are not here and cannot be had."""


class WriteError(UnlearnbenchError):
    """A file cannot be written: the disk is full, or permissions are missing."""


class RefusedError(UnlearnbenchError):
    """A method broke the protocol; its cell is recorded as refused."""


class StoppedError(UnlearnbenchError):
    """An error in a cell that every other cell would meet too: it becomes no record, and the run ends.

    Args:
        message: What is wrong.
        hint: What the user can do about it.
        exit_code: How the run ends.
    """

    def __init__(self, message: str, hint: str = "", exit_code: int = EXIT_FAILED_CELLS) -> None:
        super().__init__(message, hint)
        self.exit_code = exit_code


def nearest(name: str, known: Iterable[str], most: int = 3) -> list[str]:
    """List the known names most like `name`, best first."""
    return difflib.get_close_matches(name, list(known), n=most, cutoff=0.5)


def unknown_name(what: str, name: str, known: Iterable[str], where: str = "") -> UsageError:
    """Build the error for an unregistered name: near matches, all names where they are few, and where to find them.

    Args:
        what: What the name is of.
        name: What was asked for.
        known: The names there are.
        where: A sentence that says how to list them.
    """
    names = sorted(known)
    close = nearest(name, names)
    parts = []
    if close:
        parts.append(f"Did you mean {' or '.join(close)}?")
    if len(names) <= FEW:
        parts.append(f"Known: {', '.join(names) or 'none'}.")
    elif not (close or where):
        parts.append(f"Known: {', '.join(names[:FEW])} and {len(names) - FEW} more.")
    if where:
        parts.append(where)
    return UsageError(f"Unknown {what} {name!r}.", " ".join(parts))
