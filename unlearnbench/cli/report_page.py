"""What `unlearnbench report --html` and `--figures` write."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from unlearnbench.cli.selected_records import SelectedRecords
from unlearnbench.cli.warned import warnings_as_lines

if TYPE_CHECKING:
    from unlearnbench.report.frame.selection import Selection


def write_page_and_figures(results: Path, html: Path | None, figures: Path | None, wanted: Selection) -> None:
    """Write the page and the figures, and print their paths."""
    from unlearnbench.report.figures.figures import check_figures, write_figures
    from unlearnbench.report.page import check_page, write_page

    if html:
        check_page(html)
    if figures:
        check_figures(figures)
    records = SelectedRecords(results, wanted)
    frame = records.runs()
    if html:
        source = shlex.quote(str(results)) + wanted.options()
        audits = records.audits_beside_runs()
        with warnings_as_lines():
            page = write_page(results, frame, audits, html, source)
        print(page)
    if figures:
        for path in write_figures(frame, figures, records.every_audit):
            print(str(path))
