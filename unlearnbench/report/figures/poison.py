"""Figures, drawn by matplotlib, which comes with the extra `report`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from unlearnbench.errors import UsageError
from unlearnbench.report.extra import import_extra
from unlearnbench.report.figures.colours import MOMENTS as MOMENT_COLOURS
from unlearnbench.report.figures.saving import FORMATS, save_figure
from unlearnbench.report.frame.frame import VIEWS
from unlearnbench.report.tables.poison import MOMENTS
from unlearnbench.report.tables.table import Table


def check_figure(path: Path) -> None:
    """Refuse a figure that could not be written, before anything is computed.

    Raises:
        UsageError: Another format than png, pdf or svg, no such folder, or matplotlib is not installed.
    """
    if path.suffix.lower() not in FORMATS:
        raise UsageError(f"{path}: a figure is written as {', '.join(FORMATS)}.", "Name a file that ends so.")
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent} is no folder.", "Make it first, or name another file.")
    matplotlib_module("figure")


def draw_poison(tables: Sequence[Table], path: Path) -> None:
    """Draw micro-F1 at the moments of the poison: a panel for each dataset, view and model.

    Raises:
        UsageError: See `check_figure`.
    """
    check_figure(path)
    save_figure(poison_figure(tables), path, 150)


def poison_figure(tables: Sequence[Table]) -> Any:
    """Make the figure of `draw_poison`: rows are datasets and views, columns models."""
    datasets: dict[str, list[Table]] = {}
    for table in tables:
        datasets.setdefault(str(table.data["dataset"].iloc[0]), []).append(table)
    height, width = len(VIEWS) * len(datasets), max(map(len, datasets.values()))
    most = max(table.data["method"].nunique() for table in tables)
    size = (max(4.0, width * (1.2 + 0.75 * most)), 0.8 + 2.4 * height)
    # No pyplot: it would keep the figure and look for a screen.
    figure = matplotlib_module("figure").Figure(figsize=size, layout="constrained")
    panels = figure.subplots(height, width, squeeze=False, sharey="row")
    for panel in panels.flat:
        panel.set_visible(False)
    for at, groups in enumerate(datasets.values()):
        for column, table in enumerate(groups):
            for below, view in enumerate(VIEWS):
                panel = panels[len(VIEWS) * at + below][column]
                panel.set_visible(True)
                _draw_panel(panel, table.data[table.data["view"] == view])
                panel.set_title(f"{_title(table, groups)}, view {view}", fontsize=9)
                if column == 0:
                    panel.set_ylabel("micro-F1 %", fontsize=8)
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(MOMENTS), fontsize=8, frameon=False)
    return figure


def _title(table: Table, others: Sequence[Table]) -> str:
    """Name a group by dataset and model, or by all that sets it apart where another has the same two."""
    dataset, model = (str(table.data[column].iloc[0]) for column in ("dataset", "model"))
    alike = [one for one in others if str(one.data["model"].iloc[0]) == model]
    return f"{dataset}, {model}" if len(alike) == 1 else table.caption.partition(": ")[2].rstrip(".")


def _draw_panel(panel: Any, data: pd.DataFrame) -> None:
    """Draw one group of bars a method; whiskers are one sample standard deviation."""
    wide = 0.8 / len(MOMENTS)
    places = range(len(data))
    for at, moment in enumerate(MOMENTS):
        heights = 100 * data[f"{moment}_mean"].astype("float64")
        spreads = (100 * data[f"{moment}_sd"].astype("float64")).fillna(0.0)
        left = [place + (at - (len(MOMENTS) - 1) / 2) * wide for place in places]
        panel.bar(
            left,
            heights,
            wide,
            yerr=spreads,
            label=moment,
            color=MOMENT_COLOURS[moment],
            edgecolor="black",
            linewidth=0.4,
            error_kw={"elinewidth": 0.8, "capsize": 1.5},
        )
    # Names in several lines: neighbours would overlap.
    names = [name.replace(" (", "\n(").replace("[", "\n[").replace(",", ",\n") for name in data["method"]]
    panel.set_xticks(list(places), names, fontsize=7)
    panel.tick_params(axis="y", labelsize=7)
    panel.set_ylim(bottom=0)
    panel.spines[["top", "right"]].set_visible(False)


def matplotlib_module(name: str) -> Any:
    """Import a module of matplotlib by its name below `matplotlib`; see `import_extra`."""
    return import_extra(f"matplotlib.{name}", "Figures need matplotlib")
