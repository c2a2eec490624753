"""Lists of names with what they mean, as wide as the terminal; elsewhere a line each, for programs."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from unlearnbench.messages import broken, columns, painted

MOST = 32
"""The widest column of names; a meaning goes on the next line behind a longer name."""


def definitions(heading: str, meanings: Sequence[tuple[str, str]], indent: str = "  ") -> str:
    """Write names and their meanings in two columns below a heading, if there is one; in a pipe each on one line.

    Args:
        heading: One line; empty: none.
        meanings: Names, each with its meaning, one sentence or nothing.
        indent: What stands before each name.
    """
    is_terminal = sys.stdout.isatty()
    room = max((len(name) for name, _ in meanings if len(name) <= MOST or not is_terminal), default=0)
    hang = " " * (len(indent) + room + 2)
    lines = [painted(heading, "bold", sys.stdout)] if heading else []
    for name, meaning in meanings:
        if not (meaning and is_terminal):
            lines.append(f"{indent}{name:<{room}}  {meaning}".rstrip())
        elif len(name) > room:
            lines += [indent + name, broken(hang + meaning, columns(), hang)]
        else:
            lines.append(broken(f"{indent}{name:<{room}}  {meaning}", columns(), hang))
    return "\n".join(lines)
