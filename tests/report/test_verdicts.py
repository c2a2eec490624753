"""Which methods count as shown to forget, and how the figure of F1 against time draws the others."""

from __future__ import annotations

from typing import Any

import pytest
from page_samples import audited
from record_samples import make_record

from unlearnbench.records.record import Record
from unlearnbench.report import frame_of
from unlearnbench.report.figures.colours import find_looks
from unlearnbench.report.figures.figures import time_figure
from unlearnbench.report.frame.aggregate import aggregate
from unlearnbench.report.frame.record_groups import group_records
from unlearnbench.report.frame.verdicts import shown_to_forget
from unlearnbench.report.tables.audits import audit_frame_of


def verdicts(*records: Record) -> dict[str, bool]:
    """Return what was shown by name of the method, on the graph and with the model of the records."""
    audits = audit_frame_of(records)
    names = dict(zip(audits["method_config"], audits["method"], strict=True))
    return {names[config]: shown for config, shown in shown_to_forget(audits, audits.iloc[0]).items()}


def test_exactness_decides_before_distance_and_the_worst_verdict_counts() -> None:
    differing: list[dict[str, Any]] = [{"measure": "js", "value": 1.0}]
    assert verdicts(
        audited("exactness", "sisa", "exact", []),
        audited("exactness", "graphrevoker", "exact-given-partition (content)", []),
        audited("exactness", "gif", "refuted (approximate)", []),
        audited("distance", "gif", "as retrained", differing),
        audited("distance", "scrub", "differs", differing),
        audited("distance", "cgu", "as retrained", differing),
    ) == {"sisa": True, "graphrevoker": True, "gif": False, "scrub": False, "cgu": True}
    once = audited("exactness", "sisa", "approximate", [])
    again = once.model_copy(update={"key": "f" * 32, "cell": {**once.cell, "repetition": 1}})
    assert verdicts(audited("exactness", "sisa", "exact", []), again) == {"sisa": False}


def test_nothing_is_known_without_audits_or_on_another_graph() -> None:
    audits = audit_frame_of([audited("exactness", "sisa", "exact", [])])
    assert shown_to_forget(None, audits.iloc[0]) == {}
    assert shown_to_forget(audits, {**audits.iloc[0], "dataset_sha256": "another"}) == {}


def test_methods_not_shown_to_forget_are_hollow() -> None:
    pytest.importorskip("matplotlib")
    (group,) = group_records(frame_of([make_record(name) for name in ("retrain", "sisa", "gif")]))
    averages = aggregate(group)
    audits = audit_frame_of([audited("exactness", name, verdict, []) for name, verdict in
                             (("sisa", "exact"), ("gif", "none"))])  # fmt: skip
    audits = audits.assign(**{name: group.facets[name] for name in ("dataset_sha256", "model_config")})
    configs = dict(zip(group.frame["row"], group.frame["method_config"], strict=True))
    audits["method_config"] = audits["method"].map(configs)
    figure = time_figure(averages, audits, find_looks(), 7.0)
    (legend,) = figure.legends
    hollow = {
        text.get_text()
        for text, mark in zip(legend.get_texts(), legend.legend_handles, strict=True)
        if mark.get_markerfacecolor() == "white"
    }
    assert hollow == {"gif"}
    assert figure.get_suptitle().endswith("hollow: not shown to forget")
    plain = time_figure(averages, None, find_looks(), 7.0)
    assert all(mark.get_markerfacecolor() != "white" for mark in plain.legends[0].legend_handles)
    assert "hollow" not in plain.get_suptitle()
