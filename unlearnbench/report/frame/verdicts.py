"""Which methods audits have shown to forget."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

FORGETS = {"exactness": ("exact", "exact-given-partition"), "distance": ("as retrained",)}
"""Audits that decide, the first that has records before the next, with the verdicts that show a method to forget."""


def shown_to_forget(audits: pd.DataFrame | None, place: Mapping[str, str]) -> dict[str, bool]:
    """Return whether methods were shown to forget on a graph with a model, for every method that was audited there.

    Requests of any size count, and the worst verdict of an audit decides.

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
    for audit, verdicts in FORGETS.items():
        part = audits[here & (audits["audit"] == audit) & (audits["verdict"] != "")]
        good = part["verdict"].map(lambda verdict, known=verdicts: verdict.partition(" (")[0] in known)
        for config, all_good in good.groupby(part["method_config"]).all().items():
            shown.setdefault(str(config), bool(all_good))
    return shown
