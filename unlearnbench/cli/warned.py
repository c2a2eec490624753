"""Warnings on the command line: one line each on standard error."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from unlearnbench import messages


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Print the first line of each warning for users that is raised inside."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            yield
        finally:
            for line in dict.fromkeys(str(one.message).partition("\n")[0] for one in caught):
                messages.warning(line)
