"""The records of a results folder that a command is asked about, as data frames."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from unlearnbench import messages
from unlearnbench.errors import NothingMatchedError

if TYPE_CHECKING:
    import pandas as pd

    from unlearnbench.report.frame.selection import Selection


class SelectedRecords:
    """Runs and audits of a results folder, which is read once.

    Args:
        results: The folder.
        wanted: Which of its records are asked about.
        on_problem: Called with a line for each file that could not be read.
    """

    def __init__(self, results: Path, wanted: Selection, on_problem: Callable[[str], None] = messages.warning) -> None:
        from unlearnbench.report.frame.frame import read_results

        self._results, self._wanted, self._on_problem = results, wanted, on_problem
        self._read = read_results(results)

    def runs(self) -> pd.DataFrame:
        """Return those of runs.

        Raises:
            NothingMatchedError: There are none.
        """
        from unlearnbench.report.frame.frame import frame_of_runs

        return self._told_and_selected(frame_of_runs(self._results, *self._read))

    def audits(self) -> pd.DataFrame:
        """Return those of audits.

        Raises:
            NothingMatchedError: There are none.
        """
        from unlearnbench.report.tables.audits import frame_of_audits

        return self._told_and_selected(frame_of_audits(self._results, *self._read))

    @cached_property
    def every_audit(self) -> pd.DataFrame | None:
        """Those of audits, whatever is asked about; None where there are none."""
        from unlearnbench.report.tables.audits import audits_among

        return audits_among(self._results, *self._read)

    def audits_beside_runs(self) -> pd.DataFrame | None:
        """Return the audits of what is asked about; None where there are none."""
        if self.every_audit is None:
            return None
        try:
            # Experiments have no audits of their own.
            return _selected(self.every_audit, replace(self._wanted, experiment=""))
        except NothingMatchedError:
            return None

    def _told_and_selected(self, frame: pd.DataFrame) -> pd.DataFrame:
        for problem in frame.attrs.get("problems", ()):
            self._on_problem(problem)
        return _selected(frame, self._wanted)


def _selected(frame: pd.DataFrame, wanted: Selection) -> pd.DataFrame:
    """Return the selected records; the catalogue is loaded only if names have to be looked up."""
    from unlearnbench.registry.loading import load_catalogue
    from unlearnbench.report.frame.selection import select

    return select(frame, wanted, load_catalogue()) if wanted.options() else frame
