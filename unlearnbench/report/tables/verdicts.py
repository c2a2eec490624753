"""Which methods audits have shown to forget."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from unlearnbench.report.frame.plain_rows import rows_by
from unlearnbench.report.tables.evidence import latest_rows

FORGETS = {"exactness": ("exact", "exact-given-partition"), "distance": ("as retrained",)}
"""Audits that decide, the first that has records before the next, with the verdicts that show a method to forget."""


def shown_to_forget(audits: pd.DataFrame | None, place: Mapping[str, str]) -> dict[str, bool]:
    """Return whether methods were shown to forget on a graph with a model, for every method that was audited there.

    Requests of any size count, and the worst verdict of the latest version of an audit decides.

    Args:
        audits: What `load_audits` returns.
        place: Facets of a group; `dataset_sha256` and `model_config` are used.

    Returns:
        By canonical configuration of the method; empty where nothing was audited.
    """
    if audits is None or audits.empty:
        return {}
    here = (audits["dataset_sha256"] == place["dataset_sha256"]) & (audits["model_config"] == place["model_config"])
    shown: dict[str, bool] = {}
    for config, rows in rows_by(audits[here], "method_config", ["audit_config", "key", "verdict"]).items():
        for audit, good in FORGETS.items():
            # What a verdict adds in brackets does not matter here.
            plain = [row["verdict"].partition(" (")[0] for row in latest_rows(rows, audit) if row["verdict"]]
            if plain:
                shown.setdefault(config, all(verdict in good for verdict in plain))
    return shown
