"""How far a run is: a bar in terminals and notebooks, lines elsewhere."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from importlib.util import find_spec

from rich.console import Console, RenderableType
from rich.file_proxy import FileProxy
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.text import Text

from unlearnbench.records.record import Record
from unlearnbench.running.execute import Compute, execute
from unlearnbench.running.forks import undone_in_forks
from unlearnbench.running.interim import InterimScores, score_of
from unlearnbench.running.plan import Plan, Progress
from unlearnbench.running.runner import run_cell


def is_notebook() -> bool:
    """Whether the code runs in a notebook's kernel."""
    interactive = sys.modules.get("IPython")
    shell = interactive.get_ipython() if interactive is not None else None
    return shell is not None and hasattr(shell, "kernel")


def execute_with_progress(plan: Plan, compute: Compute = run_cell) -> list[Record]:
    """Compute a plan and show how far it is: a bar where one can be drawn, lines elsewhere, on standard error."""
    if not plan.config.progress:
        return execute(plan, compute=compute)
    # In a notebook rich draws through ipywidgets.
    can_draw = find_spec("ipywidgets") is not None if is_notebook() else sys.stderr is not None and sys.stderr.isatty()
    return compute_with_bar(plan, compute) if can_draw else execute(plan, Lines(), compute)


LINE_EVERY_SECONDS = 10.0
# A slow beat: drawing takes time from the thread that is being timed.
REDRAWN_EVERY_SECONDS = 1.0
# Columns that the line needs besides the bar itself, and the widest bar.
OTHER_COLUMNS, WIDEST = 36, 40


class Lines:
    """Progress where there is no terminal: a line now and then, and one for each failure."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def __call__(self, progress: Progress) -> None:
        """Print a line if a cell failed, if it was the last one, or if the last line is old."""
        record = progress.record
        if record is None:
            return
        failed = record.status != "ok"
        if failed or progress.number == progress.total or time.monotonic() - self._last > LINE_EVERY_SECONDS:
            self._last = time.monotonic()
            place = f"[{progress.number}/{progress.total}]"
            print(f"{place} {progress.cell.describe()}: {_outcome(record)}", file=sys.stderr)


class CellBar(Bar):
    """Cells done with the time that is left, and below it which cell, in which phase and epoch, and scores so far."""

    cell = "starting"
    phase = ""
    scores = ""

    def get_renderables(self) -> Iterable[RenderableType]:
        """Draw the lines; all but the first are cut where the terminal ends."""
        yield from super().get_renderables()
        yield Text(f"{self.cell}{f': {self.phase}' if self.phase else ''}", no_wrap=True, overflow="ellipsis")
        if self.scores:
            yield Text(self.scores, no_wrap=True, overflow="ellipsis")


def cell_bar(console: Console) -> CellBar:
    """Make a bar that fits into a terminal from 40 columns on; rich leaves colours out where NO_COLOR is set."""
    columns = (
        TextColumn("cells"), BarColumn(max(4, min(WIDEST, console.width - OTHER_COLUMNS))), MofNCompleteColumn(),
        TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(),
    )  # fmt: skip
    return CellBar(*columns, console=console, transient=True, auto_refresh=False)


@contextlib.contextmanager
def redrawn(bar: Bar) -> Iterator[None]:
    """Draw a bar anew now and then; what a method forks meanwhile writes to the streams behind the bar."""
    done = threading.Event()

    def draw() -> None:
        while not done.wait(REDRAWN_EVERY_SECONDS):
            with lock:
                bar.refresh()

    def unwrap() -> None:
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            if isinstance(stream, FileProxy):
                setattr(sys, name, stream.rich_proxied_file)

    thread = threading.Thread(target=draw, name="unlearnbench-progress", daemon=True)
    # Not drawn during a fork: the child would inherit locked streams.
    with undone_in_forks(unwrap) as lock:
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


def compute_with_bar(plan: Plan, compute: Compute = run_cell) -> list[Record]:
    """Compute a plan below a bar on standard error."""
    console = Console(stderr=True)
    with cell_bar(console) as bar, redrawn(bar):
        task, interim = bar.add_task("", total=len(plan.wanted)), InterimScores()

        def on_progress(progress: Progress) -> None:
            bar.cell, bar.phase = progress.cell.describe(), ""
            bar.update(task, completed=progress.number - (progress.record is None))
            if progress.record is not None:
                interim.add(progress.cell, progress.record)
            bar.scores = interim.text(progress.cell)
            if progress.record is not None and progress.record.status != "ok":
                console.print(f"{progress.cell.describe()}: {_outcome(progress.record)}", markup=False)

        def watch(phase: str, epoch: int, epochs: int) -> None:
            bar.phase = f"{phase}, epoch {epoch} of {epochs}" if epochs else phase

        return execute(replace(plan, context=replace(plan.context, watch=watch)), on_progress, compute)


def _outcome(record: Record) -> str:
    if record.error is not None:
        return f"{record.status}: {record.error['type']}: {record.error['message']}"
    if record.status == "ok":
        score = score_of(record)
        return record.status if score is None else f"{record.status}, F1 {100 * score:.1f} %"
    own = [note for note in record.notes if note.startswith(f"{record.status}:")]
    return own[0] if own else f"{record.status}: {' '.join(record.notes)}"
