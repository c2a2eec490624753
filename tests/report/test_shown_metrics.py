"""Which metric a table shows: what papers report, what is asked for, what plugins bring; what lacks is named."""

from __future__ import annotations

from typing import Any

import pytest
from record_samples import make_record

from unlearnbench.datasets.catalogue_of_graphs import GRAPHS, HEADLINES
from unlearnbench.errors import UsageError
from unlearnbench.records.record import Record
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.report import frame_of
from unlearnbench.report.page.content import PageSource, build_content
from unlearnbench.report.publish.recompute import compare
from unlearnbench.report.tables.core import SCORED
from unlearnbench.report.tables.index import build_tables
from unlearnbench.report.tables.table import Table

WOBBLE = (0.0, 0.01, -0.01, 0.02, -0.02)


def scored(method: str, repetition: int = 0, dataset: str = "minesweeper", **values: float) -> Record:
    """Make a record with these metrics in both views, before and after the request."""
    metrics = {
        name: {view: {"before": value, "after": value} for view in ("shard", "full")} for name, value in values.items()
    }
    metrics |= {f"val_{name}": views for name, views in metrics.items()}
    return make_record(method, repetition, dataset=dataset, metrics=metrics)


def table(records: list[Record], name: str, metric: str = "", **more: Any) -> Table:
    (one,) = build_tables(frame_of(records), name, metric=metric, **more)
    return one


def two_methods(dataset: str = "minesweeper") -> list[Record]:
    """Make records in which micro-F1 and the area tell the opposite."""
    return [
        scored(
            method, r, dataset, f1_micro=f1 + by, f1_macro=0.4 + by, roc_auc=auc + by / 2, average_precision=0.3 + by
        )
        for method, f1, auc in (("retrain", 0.8, 0.9), ("sisa", 0.7, 0.85), ("grapheraser", 0.75, 0.7))
        for r, by in enumerate(WOBBLE)
    ]


def test_areas_are_the_headline_of_the_graphs_that_papers_report_them_of() -> None:
    assert {name for name, metric in HEADLINES.items() if metric == "roc_auc"} == {
        "minesweeper",
        "tolokers",
        "questions",
    }
    assert all(row.size.classes == 2 for row in GRAPHS if row.headline == "roc_auc")
    assert set(HEADLINES.values()) == {"f1_micro", "roc_auc"}


@pytest.mark.parametrize(
    ("name", "first"),
    [("summary", "AUC shard %"), ("utility", "AUC shard %"), ("validation", "validation AUC shard %")],
)
def test_the_headline_stands_in_front_and_f1_behind(name: str, first: str) -> None:
    made = table(two_methods(), name)
    heads = list(made.shown.columns)
    assert heads[2] == first
    assert heads.index(first) < heads.index(first.replace("AUC", "F1"))
    assert dict(zip(made.shown["method"], made.shown[first], strict=True))["sisa"] == "85.00 ± 0.79"
    assert "AUC shard %" not in table(two_methods("cora"), "summary").shown


def test_methods_are_compared_by_the_headline() -> None:
    made = table(two_methods(), "comparison")
    assert made.caption.startswith("ROC AUC compared with the best method")
    assert set(made.data["best"]) == {"sisa"}
    assert "roc_auc_mean" in made.data
    assert table(two_methods("cora"), "comparison").data["best"].tolist() == ["grapheraser"] * 6
    marked = table(two_methods(), "utility").marked
    assert {column for _, column in marked} == {"AUC shard %", "AUC full %"}
    apart = table(two_methods(), "equivalence")
    assert apart.caption.startswith("ROC AUC against Retrain")
    assert apart.data.set_index("method")["difference"]["sisa"].tolist() == pytest.approx([-0.05] * 2)


@pytest.mark.parametrize("asked", ["macro-f1", "f1_macro", "Macro-F1"])
def test_macro_f1_is_shown_on_demand(asked: str) -> None:
    made = table(two_methods("cora"), "utility", asked)
    assert made.caption.startswith("Macro-F1 on the test nodes")
    assert list(made.shown.columns)[2:] == [
        "macro-F1 shard %",
        "macro-F1 full %",
        "macro-F1 shard before %",
        "macro-F1 full before %",
    ]
    assert made.shown["macro-F1 shard %"].tolist() == ["40.00 ± 1.58"] * 3
    assert made.notes[-1] == "Made by: unlearnbench report results --table utility --metric f1_macro"


@pytest.mark.parametrize("name", SCORED)
def test_every_table_of_scores_takes_a_metric(name: str) -> None:
    assert "F1 shard %" not in table(two_methods("cora"), name, "average-precision").shown


def test_a_metric_that_nobody_has_or_no_table_shows_is_refused() -> None:
    with pytest.raises(UsageError, match="Unknown metric 'rocauc'") as caught:
        table(two_methods(), "summary", "rocauc")
    assert "Did you mean roc_auc?" in caught.value.hint
    for name in ("time", "cost"):
        with pytest.raises(UsageError, match=f"Table {name} shows no metric of choice"):
            table(two_methods(), name, "macro-f1")


def test_records_older_than_a_metric_have_a_dash_and_a_reason() -> None:
    records = [*two_methods(), *(scored("old", r, f1_micro=0.6 + by, f1_macro=0.3) for r, by in enumerate(WOBBLE))]
    for name in ("summary", "utility", "validation"):
        made = table(records, name)
        (head,) = (column for column in made.shown if column.endswith("AUC full %"))
        shown = made.shown.set_index("method")
        assert shown.loc["old", head] == "-"
        assert shown.loc["old", head.replace("AUC", "F1")] == "60.00 ± 1.58"
        assert any(note.startswith("AUC: records without it: old 5 of 5.") for note in made.notes)
    assert not any("without it" in note for note in table(two_methods(), "summary").notes)
    # Where no record has it, nothing is ranked by another one instead.
    made = table([scored("retrain", f1_micro=0.8), scored("old", f1_micro=0.6)], "comparison")
    assert made.shown["AUC shard %"].tolist() == ["", ""]
    assert any("without it: retrain 1 of 1, old 1 of 1" in note for note in made.notes)


def test_metrics_of_plugins_are_in_tables_and_on_the_page() -> None:
    records = [
        scored(method, r, "cora", f1_micro=0.7 + by, f1_macro=0.5, brier=2.5 + by)
        for method in ("retrain", "sisa") for r, by in enumerate(WOBBLE)
    ]  # fmt: skip
    for name in ("summary", "utility", "validation"):
        made = table(records, name)
        (head,) = (column for column in made.shown if column.endswith("brier shard"))
        assert made.shown[head].tolist() == ["2.5000 ± 0.0158"] * 2
    assert table(records, "utility", "brier").caption.startswith("brier on the test nodes")
    content = build_content(frame_of([*records, *two_methods()]), None, PageSource())
    titles = {place["dataset"]: [head.title for head in place["heads"]] for place in content["places"]}
    assert titles["cora"][:4] == ["F1 full %", "F1 shard %", "brier full", "brier shard"]
    assert titles["minesweeper"][:4] == ["AUC full %", "AUC shard %", "F1 full %", "F1 shard %"]
    texts = {
        (place["dataset"], row["method"]): [cell["text"] for cell in row["cells"]]
        for place in content["places"]
        for row in place["rows"]
    }
    assert texts["cora", "sisa"][2:4] == ["2.5000"] * 2
    assert texts["minesweeper", "sisa"][:2] == ["85.00"] * 2


def test_a_metric_that_failed_is_named() -> None:
    note = "The metric brier failed and is left out: ValueError: no. Really."
    records = [scored("retrain", f1_micro=0.8), scored("sisa", f1_micro=0.7).model_copy(update={"notes": [note]})]
    expected = "sisa: the metric brier failed in 1 repetitions: ValueError; their records say why, under notes."
    for name in SCORED:
        assert expected in table(records, name).notes
    content = build_content(frame_of(records), None, PageSource())
    assert expected in content["places"][0]["notes"]


def test_predictions_of_one_class_and_scores_that_are_all_alike_are_reported() -> None:
    notes = [f"one class: every test node is predicted as class 0 in view {view}." for view in ("shard", "full")]
    alike = [scored(method, r, f1_micro=0.7925, f1_macro=0.4421, roc_auc=0.5).model_copy(update={"notes": notes})
             for method in ("retrain", "sisa") for r in range(3)]  # fmt: skip
    for name in SCORED:
        made = table(alike, name)
        for row in ("retrain", "sisa"):
            said = f"{row}: one class: all test nodes are predicted as one class in 3 of 3 repetitions."
            assert said in made.notes
        for view in ("shard", "full"):
            assert any(note.startswith(f"View {view}: all methods agree to the last digit") for note in made.notes)
    # One repetition that differs in one metric is enough to tell methods apart.
    apart = [*alike[:-1], scored("sisa", 2, f1_micro=0.7925, f1_macro=0.4422, roc_auc=0.5)]
    assert not any("agree to the last digit" in note for note in table(apart, "summary").notes)
    assert not any("agree to the last digit" in note for note in table(alike[:3], "summary").notes)


def test_a_cell_computed_again_may_have_metrics_that_came_later() -> None:
    old = scored("sisa", f1_micro=0.7)
    assert compare(old, scored("sisa", f1_micro=0.7, roc_auc=0.6)).agrees
    assert not compare(scored("sisa", f1_micro=0.7, roc_auc=0.6), old).agrees


def test_the_package_brings_four_metrics() -> None:
    assert load_catalogue().names("metric") == ["average_precision", "f1_macro", "f1_micro", "roc_auc"]
