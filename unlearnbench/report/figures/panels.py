"""Panels, axes and legends of figures on paper, as matplotlib draws them."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from unlearnbench.registry.looks import SHAPES, Look
from unlearnbench.report.figures.colours import INK
from unlearnbench.report.figures.poison import matplotlib_module

SMALL, PLAIN = 6, 7
"""Sizes of letters."""
LINE = 0.14
"""Inches that a line of the legend takes."""


def make_panels(
    width: float, number: int, height: float, sharey: bool = False, rows: int = 1
) -> tuple[Any, Sequence[Any]]:
    """Make a figure with panels side by side on a whole page, one above the other in a column; so many `rows` times."""
    rows, columns = (rows, number) if width > 5 else (rows * number, 1)
    # No pyplot: it would keep the figure and look for a screen.
    figure = matplotlib_module("figure").Figure(figsize=(width, rows * height + 0.6), layout="constrained")
    return figure, list(figure.subplots(rows, columns, squeeze=False, sharey=sharey).flat)


def put_ticks(panel: Any, axis: str, low: float, high: float) -> None:
    """Put plain numbers on a logarithmic axis: 1, 2 and 5 of each power of ten, or the powers where these are many."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    inside = [(one, one * 10.0**power) for power in powers for one in (1, 2, 5) if low <= one * 10.0**power <= high]
    tens = [value for one, value in inside if one == 1]
    ticks = tens if len(inside) > 6 and len(tens) > 1 else [value for _, value in inside]
    panel.minorticks_off()
    getattr(panel, f"set_{axis}ticks")(ticks, [f"{value:g}" for value in ticks])


def marker_of(one: Look, hollow: bool = False) -> dict[str, Any]:
    """Return how the points of a method are drawn; hollow, its colour is that of the outline."""
    marker = {"marker": SHAPES[one.shape], "markersize": 5.5, "markeredgecolor": INK, "markeredgewidth": 0.5}
    if hollow:
        marker |= {"markerfacecolor": "white", "markeredgecolor": one.colour, "markeredgewidth": 1.2}
    return marker | {"color": one.colour, "linestyle": "none", "ecolor": INK, "elinewidth": 0.6, "linewidth": 1.4}


def with_tag(row: str, tagged: Mapping[str, str]) -> str:
    """Put the number of a row that shares its look in front of it."""
    return f"{tagged[row]} {row}" if row in tagged else row


def dress(panel: Any, title: str, bottom: str, left: str) -> None:
    """Write the title and the axes of a panel."""
    panel.set_title(title, fontsize=PLAIN)
    panel.set_xlabel(bottom, fontsize=PLAIN)
    panel.set_ylabel(left, fontsize=PLAIN)
    panel.tick_params(labelsize=SMALL)
    panel.spines[["top", "right"]].set_visible(False)


def put_legend(
    figure: Any, shown: Mapping[str, Look], width: float, most: int = 4, hollow: Collection[str] = ()
) -> None:
    """Put the legend below a figure, which grows if there are many rows; names in `hollow` have hollow marks."""
    line = matplotlib_module("lines").Line2D
    handles = []
    for label, look in shown.items():
        marker = {
            name: value
            for name, value in marker_of(look, label in hollow).items()
            if name not in ("ecolor", "elinewidth")
        }
        handles.append(line([], [], label=label, **marker))
    longest = max(map(len, shown), default=0)
    columns = max(1, min(most, int(width * 17 / (longest + 5))))
    # Beyond the lines there is room for, the figure grows: it would be drawn over.
    figure.set_figheight(figure.get_figheight() + LINE * max(0, math.ceil(len(shown) / columns) - 4))
    size = SMALL * min(1.0, width * 17 / (longest + 5))
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, fontsize=size, frameon=False)


def titled(figure: Any, name: str) -> Any:
    """Put a title over a figure, and return it."""
    figure.suptitle(name, fontsize=PLAIN)
    return figure
