"""A bar of progress for runs from Python, in notebooks and wherever it is asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from unlearnbench.errors import UsageError
from unlearnbench.planning import Progress


def wants_bar(progress: bool | None) -> bool:
    """Tell whether a run shows a bar.

    Args:
        progress: What was asked for; None: a bar in a notebook if tqdm is there.

    Raises:
        UsageError: A bar was asked for and there is no tqdm.
    """
    there = find_spec("tqdm") is not None
    if progress and not there:
        raise UsageError("progress=True: there is no module tqdm.", "Install it: pip install tqdm.")
    return there and (is_notebook() if progress is None else progress)


def is_notebook() -> bool:
    """Tell whether the code runs in a notebook's kernel."""
    interactive = sys.modules.get("IPython")
    shell = interactive.get_ipython() if interactive is not None else None
    return shell is not None and hasattr(shell, "kernel")


@contextmanager
def bar(total: int) -> Iterator[Callable[[Progress], None]]:
    """Show a bar of so many cells; what comes out is told of each cell before and after it."""
    from tqdm.auto import tqdm

    # tqdm says so itself where a notebook cannot draw; a bar of text is then shown all the same.
    with tqdm(total=total, unit="cell", disable=total == 0) as shown:

        def tell(progress: Progress) -> None:
            shown.set_description(progress.cell.describe(), refresh=False)
            if progress.record is None:
                shown.refresh()
                return
            shown.update()
            if progress.record.status != "ok":
                shown.write(f"{progress.cell.describe()}: {progress.record.status}", file=sys.stderr)

        yield tell
