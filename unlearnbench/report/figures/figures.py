"""The figures of the page at the size of a paper's column and of its page, drawn by matplotlib."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from unlearnbench.errors import NothingMatchedError
from unlearnbench.records.files import make_folder
from unlearnbench.report.extra import check_folder
from unlearnbench.report.figures.colours import HEAT, INK, SHADES, Looks, find_looks, ink_on
from unlearnbench.report.figures.panels import (
    SMALL,
    dress,
    make_panels,
    marker_of,
    put_legend,
    put_ticks,
    titled,
    with_tag,
)
from unlearnbench.report.figures.poison import matplotlib_module
from unlearnbench.report.figures.saving import FORMATS, save_figure
from unlearnbench.report.figures.series import PHASES, Heat, heats, lines, points, stacks, tags
from unlearnbench.report.figures.stream import stream_figure
from unlearnbench.report.figures.sweep import sweep_figure
from unlearnbench.report.frame.aggregate import Aggregate, aggregate
from unlearnbench.report.frame.frame import VIEWS
from unlearnbench.report.frame.record_groups import REFERENCE, group_records
from unlearnbench.report.tables.cost import Curve, find_curves, shown_even
from unlearnbench.report.tables.source import TableSource
from unlearnbench.report.tables.stream import stream_tables
from unlearnbench.report.tables.sweep import place_name, sweeps
from unlearnbench.report.tables.verdicts import shown_to_forget

WIDTHS = {"column": 3.35, "full": 7.0}
"""Width in inches: one column of a page of two, and the whole page."""
_LONGEST = 62  # characters in half a page
_TITLES = {"fit": "first training", "unlearn": "unlearning"}


def check_figures(folder: Path) -> None:
    """Refuse figures that could not be written, before anything is computed.

    Raises:
        UsageError: The folder is a file, or matplotlib is not installed.
    """
    check_folder(folder, "the figures")
    matplotlib_module("figure")


def write_figures(frame: pd.DataFrame, folder: Path, audits: pd.DataFrame | None = None) -> Iterator[Path]:
    """Draw every figure there are records for, in both widths and as PNG, PDF and SVG; yield each file once written.

    With what `load_audits` returned, the figure of several requests shows the distance from Retrain too.

    The folder is made if it is not there; figures of the same names are replaced.

    Raises:
        UsageError: See `check_figures`.
        NothingMatchedError: There is nothing to draw.
    """
    check_figures(folder)
    figures = list(find_figures(frame, audits))
    if not figures:
        raise NothingMatchedError("No figure: no record has an F1 and a time.", "Make some with `unlearnbench run`.")
    make_folder(folder)
    for name, draw in _named(figures):
        for width in WIDTHS:
            figure = draw(WIDTHS[width])
            for ending in FORMATS:
                path = folder / f"{name}-{width}{ending}"
                save_figure(figure, path, 300)
                yield path


def find_figures(
    frame: pd.DataFrame, audits: pd.DataFrame | None = None
) -> Iterator[tuple[str, Callable[[float], Any]]]:
    """Yield what each figure is of, and what draws it at a width in inches."""
    looks = find_looks()
    for group in group_records(frame):
        averages = aggregate(group)
        if any(points(averages, view)[0] for view in VIEWS):
            yield f"f1-time {group.name}", partial(time_figure, averages, audits, looks)
        if any(stacks(averages, moment) for moment in PHASES):
            yield f"phases {group.name}", partial(phases_figure, averages, looks)
        for heat in heats(averages):
            yield f"parts {group.name}", partial(heat_figure, heat)
        for table in stream_tables("stream", averages):
            yield f"stream {group.name}", partial(stream_figure, [table], looks)
    for curve in find_curves(frame):
        if lines(curve)[0]:
            yield f"cost {curve.name}", partial(cost_figure, curve, looks)
    for groups in sweeps(TableSource("sweep", frame)):
        yield f"sweep {place_name(groups)}", partial(sweep_figure, groups, audits, looks)


def time_figure(averages: Aggregate, audits: pd.DataFrame | None, looks: Looks, width: float) -> Any:
    """Draw micro-F1 against unlearning time, a panel a view; bars are one sample standard deviation.

    Where methods were audited, those that were not shown to forget are hollow.
    """
    figure, panels = make_panels(width, 2, 2.1, sharey=True)
    shown: dict[str, Any] = {}
    forgets, records = shown_to_forget(audits, averages.group.facets), averages.group.frame
    hollow = set[str]()
    configs = dict(zip(records["row"], records["method_config"], strict=True))
    doubtful = {row for row, config in configs.items() if forgets and row != REFERENCE and not forgets.get(config)}
    for panel, view in zip(panels, VIEWS, strict=True):
        drawn, _ = points(averages, view)
        tagged = tags((one.row, one.method) for one in drawn)
        for one in drawn:
            x, y = one.seconds, 100 * one.score
            # A bar that reaches 0 has no left end on this axis: it is cut where the axis ends.
            left = min(one.seconds_sd or 0.0, 0.999 * x)
            spread = None if one.score_sd is None else [100 * one.score_sd]
            look, right = looks.of(one.method), one.seconds_sd or 0.0
            panel.errorbar([x], [y], yerr=spread, xerr=[[left], [right]], **marker_of(look, one.row in doubtful))
            shown[with_tag(one.row, tagged)] = look
            if one.row in tagged:
                style = {"xytext": (4, 3), "textcoords": "offset points", "fontsize": SMALL, "zorder": 5}
                panel.annotate(tagged[one.row], (x, y), **style)
            if one.row == REFERENCE:
                panel.axvline(x, color=INK, linewidth=0.5, linestyle=":")
                panel.axhline(y, color=INK, linewidth=0.5, linestyle=":")
        panel.set_xscale("log")
        if drawn:
            least, most = min(one.seconds for one in drawn), max(one.seconds + (one.seconds_sd or 0.0) for one in drawn)
            panel.set_xlim(least / 2, 1.3 * most)
            put_ticks(panel, "x", least / 2, 1.3 * most)
        # Side by side the panels have one axis.
        dress(panel, f"view {view}", "unlearning time, s", "micro-F1, %" if width < 5 or view == VIEWS[0] else "")
        hollow |= {with_tag(row, tagged) for row in doubtful}
    put_legend(figure, shown, width, hollow=hollow)
    return titled(figure, averages.group.name + ("; hollow: not shown to forget" if hollow & set(shown) else ""))


def phases_figure(averages: Aggregate, looks: Looks, width: float) -> Any:
    """Draw time per phase as stacked bars, the first training beside unlearning."""
    rows = [str(row) for row in averages.data["method"]]
    figure, panels = make_panels(width, 2, 0.4 + 0.25 * len(rows))
    for panel, moment in zip(panels, PHASES, strict=True):
        by_row = {one.row: one for one in stacks(averages, moment)}
        longest = max((one.total for one in by_row.values()), default=1.0)
        for at, row in enumerate(rows):
            # Smaller where it would leave its panel, and never a reason to make the panel narrower.
            size = SMALL * min(1.0, _LONGEST / len(row))
            panel.text(0, at - 0.16, row, fontsize=size, va="bottom").set_in_layout(False)
            if row not in by_row:
                continue
            left, one = 0.0, by_row[row]
            for phase, seconds in one.parts.items():
                # Thinner than its outline: it would be a thick line and nothing else.
                if seconds > 0.004 * longest or seconds == one.total:
                    colour = (looks.of(one.method).colour, SHADES[phase])
                    panel.barh(at + 0.08, seconds, 0.42, left=left, color=colour, edgecolor=INK, linewidth=0.3)
                left += seconds
            panel.text(left + 0.015 * longest, at + 0.08, f"{one.total:.3g}", fontsize=SMALL, va="center")
        panel.set_yticks([])
        panel.set(ylim=(len(rows) - 0.5, -0.75), xlim=(0, 1.12 * longest))
        dress(panel, _TITLES[moment], "mean seconds", "")
        panel.spines["left"].set_visible(False)
    handles = [
        matplotlib_module("patches").Patch(facecolor=("#5A5A5A", shade), edgecolor=INK, linewidth=0.3, label=names)
        for shade, names in shaded().items()
    ]
    figure.legend(
        handles=handles, loc="outside lower center", ncols=4 if width > 5 else 2, fontsize=SMALL, frameon=False
    )
    return titled(figure, averages.group.name)


def shaded() -> dict[float, str]:
    """Map each opacity to the phases that have it."""
    return {one: ", ".join(phase for phase, shade in SHADES.items() if shade == one) for one in SHADES.values()}


def heat_figure(heat: Heat, width: float) -> Any:
    """Draw mean micro-F1 of every partitioner with every aggregator, a panel a view."""
    size = (len(heat.partitioners), len(heat.aggregators))
    figure, panels = make_panels(width, 2, 0.75 + 0.24 * size[0])
    rectangle = matplotlib_module("patches").Rectangle
    for panel, view in zip(panels, VIEWS, strict=True):
        for at, partitioner in enumerate(heat.partitioners):
            for along, aggregator in enumerate(heat.aggregators):
                place = (view, partitioner, aggregator)
                step = heat.step(*place)
                colour, text = ("#ffffff", "-") if step is None else (HEAT[step], f"{100 * heat.scores[place]:.1f}")
                panel.add_patch(rectangle((along, at), 1, 1, facecolor=colour, edgecolor="#ffffff"))
                panel.text(along + 0.5, at + 0.5, text, ha="center", va="center", fontsize=SMALL, color=ink_on(colour))
        panel.set(xlim=(0, size[1]), ylim=(size[0], 0))
        panel.set_xticks([at + 0.5 for at in range(size[1])], heat.aggregators, rotation=20, ha="right")
        panel.set_yticks([at + 0.5 for at in range(size[0])], heat.partitioners)
        dress(panel, f"view {view}, micro-F1 %", "", "")
        panel.spines[["left", "bottom"]].set_visible(False)
        panel.tick_params(length=0)
    return titled(figure, heat.averages.group.name)


def cost_figure(curve: Curve, looks: Looks, width: float) -> Any:
    """Draw unlearning time against deletions; a ring stands where Retrain becomes as fast."""
    figure, (panel,) = make_panels(width, 1, 2.4)
    names = dict(zip(curve.part["row"], curve.part["method_name"], strict=True))
    drawn, _ = lines(curve)
    tagged = tags((row, names[row]) for row in drawn)
    shown: dict[str, Any] = {}
    for row, part in drawn.items():
        seconds, spreads = part["seconds"].astype("float64"), part["sd"].astype("float64")
        low = spreads.fillna(0.0).clip(upper=0.999 * seconds)
        marked = marker_of(looks.of(names[row])) | {"linestyle": "-"}
        panel.errorbar(part["deletions"], seconds, yerr=[low, spreads.fillna(0.0)], **marked)
        even = curve.even.get(row)
        entry = f"{with_tag(row, tagged)} (break-even: {shown_even(even)})" if row in curve.even else row
        shown[entry] = looks.of(names[row])
        if row in tagged:
            last = (part["deletions"].iloc[-1], seconds.iloc[-1])
            panel.annotate(tagged[row], last, xytext=(4, 3), textcoords="offset points", fontsize=SMALL)
        base = next((other for name, other in drawn.items() if names[name] == REFERENCE), None)
        if even and base is not None:
            panel.plot([even], [between(base, even)], "o", markersize=9, markerfacecolor="none", markeredgecolor=INK)
    panel.set_xscale("log")
    panel.set_yscale("log")
    points_drawn = pd.concat(list(drawn.values()))
    counts = sorted({int(count) for count in points_drawn["deletions"]})
    seconds = points_drawn["seconds"].astype("float64")
    limits = (
        float(seconds.min()) / 1.6,
        float((seconds + points_drawn["sd"].astype("float64").fillna(0.0)).max()) * 1.2,
    )
    panel.set_ylim(limits)
    put_ticks(panel, "y", *limits)
    panel.set_xticks(counts, [str(count) for count in counts])
    dress(panel, "", "deletions in one request", "unlearning time, s")
    put_legend(figure, shown, width, most=2)
    return titled(figure, curve.name)


def between(part: pd.DataFrame, count: float) -> float:
    """Interpolate the seconds of a curve at a number of deletions within it, both axes logarithmic."""
    pairs = list(zip(part["deletions"].astype(float), part["seconds"].astype(float), strict=True))
    for (left, low), (right, high) in itertools.pairwise(pairs):
        if left <= count <= right:
            return float(low * (high / low) ** (math.log(count / left) / math.log(right / left)))
    return pairs[-1][1]


def _named(figures: Sequence[tuple[str, Callable[[float], Any]]]) -> Iterator[tuple[str, Callable[[float], Any]]]:
    """Turn what figures are of into names of files, no two of them the same."""
    taken: set[str] = set()
    for what, draw in figures:
        plain = re.sub(r"[^a-z0-9.]+", "-", what.lower().replace(" %", "pc")).strip("-")[:100]
        others = (f"{plain}-{number}" for number in itertools.count(2))
        name = next(one for one in itertools.chain([plain], others) if one not in taken)
        taken.add(name)
        yield name, draw
