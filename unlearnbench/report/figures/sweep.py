"""The figure of several requests: F1, time and the distance from Retrain against what is forgotten."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pandas as pd

from unlearnbench.report.figures.colours import Looks
from unlearnbench.report.figures.panels import dress, make_panels, marker_of, put_legend, put_ticks, titled
from unlearnbench.report.frame.aggregate import Aggregate
from unlearnbench.report.tables.sweep import distances, forgotten, place_name


def sweep_figure(groups: Sequence[Aggregate], audits: pd.DataFrame | None, looks: Looks, width: float) -> Any:
    """Draw F1 in the full view, unlearning time, and the distance if it is known against what is forgotten."""
    lines_drawn = [one.data.assign(forgotten=forgotten(one), distance=distances(audits, one)) for one in groups]
    data = pd.concat(lines_drawn)
    names = {row: name for one in groups for row, name in one.group.frame[["row", "method_name"]].to_numpy()}
    panels_of = {
        "micro-F1 % (view full)": ("f1_micro_full_mean", 100),
        "unlearning time relative to Retrain": ("times_retrain", 1),
    }
    if data["distance"].notna().any():
        panels_of["distance from Retrain on the forgotten"] = ("distance", 1)
    figure, panels = make_panels(width, len(panels_of), 2.1)
    kind = json.loads(groups[0].group.facets["protocol_config"])["forget"].get("kind", "node")
    shown: dict[str, Any] = {}
    for panel, (title, (column, scale)) in zip(panels, panels_of.items(), strict=True):
        for row, part in data.groupby("method", sort=False):
            values = scale * part[column].astype("float64")
            panel.errorbar(part["forgotten"], values, **marker_of(looks.of(names[str(row)])) | {"linestyle": "-"})
            shown[str(row)] = looks.of(names[str(row)])
        panel.set_xscale("log")
        counts = sorted(set(data["forgotten"]))
        panel.set_xticks(counts, [f"{count:.0f}" for count in counts])
        panel.minorticks_off()
        if column == "times_retrain":
            panel.set_yscale("log")
            put_ticks(panel, "y", *panel.get_ylim())
        dress(panel, title, f"{kind}s forgotten", "")
    put_legend(figure, shown, width)
    return titled(figure, place_name(groups))
