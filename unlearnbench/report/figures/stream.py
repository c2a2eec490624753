"""The figure of streams: F1 and cumulative time against how much is forgotten."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from unlearnbench.registry.looks import Look
from unlearnbench.report.figures.colours import Looks, find_looks
from unlearnbench.report.figures.panels import SMALL, dress, make_panels, marker_of, put_legend, titled, with_tag
from unlearnbench.report.figures.poison import check_figure
from unlearnbench.report.figures.saving import save_figure
from unlearnbench.report.figures.series import tags
from unlearnbench.report.tables.table import Table

WIDE = 7.0


def draw_stream(tables: Sequence[Table], path: Path) -> None:
    """Draw the figure of streams into a file.

    Raises:
        UsageError: See `check_figure`.
    """
    check_figure(path)
    save_figure(stream_figure(tables, find_looks(), WIDE), path, 150)


def stream_figure(tables: Sequence[Table], looks: Looks, width: float) -> Any:
    """Draw two panels for each table: micro-F1 in the view shard, and cumulative time."""
    figure, panels = make_panels(width, 2, 2.1, rows=len(tables))
    shown: dict[str, Look] = {}
    for at, table in enumerate(tables):
        score, time = panels[2 * at : 2 * at + 2]
        rows = [(str(row), part) for row, part in table.data.groupby("method", sort=False)]
        methods = {row: str(part["method_name"].iloc[0]) for row, part in rows}
        tagged = tags(methods.items())
        for row, part in rows:
            shown[with_tag(row, tagged)] = look = looks.of(methods[row])
            for panel, values in ((score, 100 * part["f1_micro_shard_mean"]), (time, part["cumulative_seconds_mean"])):
                _draw(panel, part["forgotten"], values, look, tagged.get(row, ""))
        name = "" if len(tables) == 1 else table.caption.partition(": ")[2].partition(";")[0]
        dress(score, name, "forgotten", "micro-F1, %")
        dress(time, "", "forgotten", "cumulative seconds")
    put_legend(figure, shown, width)
    return titled(figure, tables[0].caption.partition(": ")[2].partition(";")[0] if len(tables) == 1 else "Streams")


def _draw(panel: Any, forgotten: pd.Series[Any], values: pd.Series[Any], look: Look, tag: str) -> None:
    known = values.astype("float64").notna()
    if not known.any():
        return
    style = {name: value for name, value in marker_of(look).items() if name not in ("ecolor", "elinewidth")}
    panel.plot(forgotten[known], values[known].astype("float64"), **style | {"linestyle": "-", "markersize": 3.5})
    last = (forgotten[known].iloc[-1], float(values[known].iloc[-1]))
    panel.annotate(tag, last, xytext=(4, 0), textcoords="offset points", fontsize=SMALL)
