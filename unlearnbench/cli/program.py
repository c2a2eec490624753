"""How the program was started, so that the commands it prints work as they stand."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

NAME = "unlearnbench"


def program() -> str:
    """Return what to type before a command: `unlearnbench` where the shell finds this one, else its path as typed."""
    started = Path(sys.argv[0])
    if started.name == "__main__.py" and started.parent.name == NAME:
        return f"{_typed(Path(sys.executable))} -m {NAME}"
    return _typed(started) if started.stem == NAME else NAME


def _typed(path: Path) -> str:
    """Return the name of a program that the shell finds, else its path, from the working directory if it is in it."""
    found = shutil.which(path.name)
    if found and os.path.abspath(found) == os.path.abspath(path):
        return path.name
    inside = os.path.relpath(path)
    return shlex.quote(str(path) if inside.startswith("..") else inside)


def as_typed(text: str, commands: Iterable[str]) -> str:
    """Put what to type in place of `unlearnbench` in a text, where one of the commands follows."""
    how = program()
    if how == NAME:
        return text
    following = "|".join(map(re.escape, commands))
    return re.sub(rf"(?<![\w./-]){NAME}(?= (?:{following})\b)", lambda _: how, text)
