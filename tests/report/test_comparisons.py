from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

import pytest
from record_samples import make_record

from unlearnbench.errors import DataError
from unlearnbench.records.record import Record
from unlearnbench.report import frame_of
from unlearnbench.report.tables.index import build_tables
from unlearnbench.report.tables.render import render
from unlearnbench.report.tables.table import Table
from unlearnbench.statistics import corrected_paired_t, equivalence, holm

NONE = {"claim": "none", "reason": ""}
RETRAIN = [0.90, 0.91, 0.92, 0.90, 0.91, 0.93]
BEST = [0.84, 0.86, 0.85, 0.83, 0.88, 0.86]
NEAR = [0.85, 0.84, 0.86, 0.82, 0.86, 0.86]
FAR = [0.74, 0.75, 0.76, 0.71, 0.77, 0.75]
STYLES = ("text", "md", "latex", "csv")


def records(method: str, values: Sequence[float], **more: Any) -> list[Record]:
    return [make_record(method, r, shard=value, full=value / 2, **more) for r, value in enumerate(values)]


def table(name: str, *parts: list[Record]) -> Table:
    (found,) = build_tables(frame_of([record for part in parts for record in part]), name)
    return found


def cell(shown: Table, method: str, column: str, view: str = "") -> str:
    rows = shown.shown[shown.shown["method"] == method]
    (text,) = rows[rows["view"] == view][column] if view else rows[column]
    return str(text)


def raw(shown: Table, method: str, view: str = "shard") -> Any:
    (row,) = [row for _, row in shown.data.iterrows() if (row["method"], row["view"]) == (method, view)]
    return row


def marked(shown: Table) -> set[tuple[str, str]]:
    return {(str(shown.shown["method"].iloc[row]), column) for row, column in shown.marked}


def minus(first: Sequence[float], second: Sequence[float]) -> list[float]:
    return [a - b for a, b in zip(first, second, strict=True)]


def noted(shown: Table, text: str) -> bool:
    return any(text in note for note in shown.notes)


# --- comparison


def test_every_method_is_compared_with_the_best_in_one_family() -> None:
    shown = table("comparison", records("retrain", RETRAIN), records("a", BEST), records("b", NEAR), records("c", FAR))
    tests = {name: corrected_paired_t(minus(values, BEST), 1 / 7) for name, values in (("b", NEAR), ("c", FAR))}
    adjusted = dict(zip(tests, holm([one.p for one in tests.values()]), strict=True))
    for name, one in tests.items():
        row = raw(shown, name)
        assert (row["best"], row["common"], row["test_over_train"]) == ("a", 6, pytest.approx(1 / 7))
        for column, value in (("difference", one.mean), ("low", one.low), ("high", one.high), ("p", one.p)):
            assert row[column] == pytest.approx(value)
        assert row["p_holm"] == pytest.approx(adjusted[name])
    assert adjusted["b"] is not None
    assert adjusted["b"] > 0.05 > raw(shown, "c")["p_holm"]
    assert cell(shown, "a", "shard: to best") == "best"
    assert one.low is not None
    assert one.high is not None
    assert cell(shown, "c", "shard: to best") == f"-10.67 ({100 * one.low:.2f} to {100 * one.high:.2f})"
    assert cell(shown, "b", "shard: p") == f"{adjusted['b']:.3f}"
    assert marked(shown) == {(name, f"F1 {view} %") for name in "ab" for view in ("shard", "full")}
    assert (raw(shown, "a")["is_marked"], raw(shown, "c")["is_marked"]) == (True, False)
    assert noted(shown, "(1/R + 0.1/0.7)")


def test_the_reference_stands_outside() -> None:
    shown = table("comparison", records("retrain", RETRAIN), records("a", BEST), records("b", NEAR))
    assert (cell(shown, "retrain", "shard: to best"), cell(shown, "retrain", "shard: p")) == ("", "")
    assert not raw(shown, "retrain")["is_ranked"]
    alone = table("comparison", records("a", BEST), records("b", NEAR))
    assert list(alone.shown["shard: p"]) == list(shown.shown["shard: p"][1:])


def smoothed(method: str) -> dict[str, Any]:
    part = {"name": method, "version": 1, "params": {}}
    return {"label": f"smoothed[method={method}]", "params": {"method": part, "share": 0.5, "rounds": 15}}


def test_retrain_within_another_method_stands_outside_too_and_times_are_relative_to_retrain_alone() -> None:
    made = [
        records("smoothed", [0.99] * 6, **smoothed("retrain"), seconds=2.0),
        records("smoothed", BEST, **smoothed("sisa"), seconds=3.0),
        records("retrain", RETRAIN, seconds=1.0),
        records("a", NEAR, seconds=4.0),
    ]
    shown = table("comparison", *made)
    assert list(shown.shown["method"]) == ["retrain", "smoothed[method=retrain]", "a", "smoothed[method=sisa]"]
    assert raw(shown, "a")["best"] == "smoothed[method=sisa]"
    for name in ("retrain", "smoothed[method=retrain]"):
        assert not raw(shown, name)["is_ranked"]
        assert cell(shown, name, "shard: to best") == ""
    assert noted(shown, "Retrain in several forms, none of them ranked: retrain, smoothed[method=retrain].")
    times = table("time", *made)
    ratios = {name: cell(times, name, "relative to Retrain") for name in times.shown["method"]}
    assert ratios == {
        "retrain": "1.00", "smoothed[method=retrain]": "2.00", "a": "4.00", "smoothed[method=sisa]": "3.00",
    }  # fmt: skip
    apart = table("equivalence", *made)
    assert "smoothed[method=retrain]" in set(apart.shown["method"])


def test_a_time_to_predict_has_a_column_where_it_was_measured() -> None:
    phases = [{"name": "unlearn", "seconds": 1.0}, {"name": "predict-full", "seconds": 0.25}]
    old, new = records("retrain", RETRAIN), records("a", BEST, phases=phases)
    assert "predict full s" not in table("time", old).shown
    shown = table("time", old, new)
    assert (cell(shown, "retrain", "predict full s"), cell(shown, "a", "predict full s")) == ("", "0.250 ± 0.000")
    assert noted(shown, "not part of unlearn s")
    assert "predict full s" not in table("summary", old, new).shown


def test_views_have_a_best_each() -> None:
    turned = [make_record("b", r, shard=near, full=0.9) for r, near in enumerate(NEAR)]
    shown = table("comparison", records("a", BEST), turned)
    assert (cell(shown, "a", "shard: to best"), cell(shown, "b", "full: to best")) == ("best", "best")
    assert ("a", "F1 full %") not in marked(shown)


def test_a_method_that_claims_nothing_is_never_best() -> None:
    shown = table("comparison", records("noop", [0.95] * 6, claim=NONE), records("a", BEST), records("b", NEAR))
    assert raw(shown, "b")["best"] == "a"
    assert cell(shown, "noop", "shard: p") == ""
    assert cell(shown, "noop", "shard: to best").startswith("9.67 (")
    assert {name for name, _ in marked(shown)} == {"a", "b"}
    assert noted(shown, "View shard: not ranked: noop")
    without = table("comparison", records("a", BEST), records("b", NEAR))
    assert cell(without, "b", "shard: p") == cell(shown, "b", "shard: p")


def test_a_method_that_lacks_a_repetition_is_not_ranked() -> None:
    short = [*records("gif", [0.97] * 5), make_record("gif", 5, status="diverged", metrics={})]
    shown = table("comparison", records("a", BEST), records("b", NEAR), short)
    row = raw(shown, "gif")
    assert (row["is_ranked"], row["best"], row["common"], row["n"], row["expected"]) == (False, "a", 5, 5, 6)
    assert row["difference"] == pytest.approx(corrected_paired_t(minus([0.97] * 5, BEST[:5]), 1 / 7).mean)
    assert (cell(shown, "gif", "n"), cell(shown, "gif", "shard: p")) == ("5/6", "")
    assert cell(shown, "gif", "status") == "diverged 1"
    assert "gif" not in {name for name, _ in marked(shown)}
    assert noted(shown, "not ranked: gif")


def test_with_few_repetitions_nothing_is_marked() -> None:
    for count in (4, 5):
        shown = table("comparison", records("a", BEST[:count]), records("b", NEAR[:count]))
        assert cell(shown, "b", "shard: p") != ""
        assert bool(shown.marked) is (count == 5)
        assert noted(shown, "Nothing is marked: fewer than 5") is (count == 4)
        assert noted(shown, "Marked (=") is (count == 5)


def test_one_method_alone_is_not_marked() -> None:
    shown = table("comparison", records("retrain", RETRAIN), records("a", BEST))
    assert shown.marked == frozenset()
    assert noted(shown, "only a can be ranked")
    none = table("comparison", records("retrain", RETRAIN))
    assert noted(none, "no method can be ranked")


def test_methods_that_agree_in_every_repetition_are_both_marked_and_it_is_said() -> None:
    shown = table("comparison", records("a", BEST), records("b", BEST))
    assert (cell(shown, "b", "shard: to best"), cell(shown, "b", "shard: p")) == ("0.00 (0.00 to 0.00)", "1.000")
    assert ("b", "F1 shard %") in marked(shown)
    assert noted(shown, "b (shard), b (full): all values are equal")


def test_a_split_of_its_own_makes_the_plain_test() -> None:
    shown = table("comparison", records("a", BEST, split="own"), records("b", NEAR, split="own"))
    assert raw(shown, "b")["p"] == pytest.approx(corrected_paired_t(minus(NEAR, BEST), 0).p)
    assert noted(shown, "plain paired t-test")
    assert not noted(shown, "Nadeau")


@pytest.mark.parametrize("name", ["comparison", "equivalence"])
def test_without_a_known_split_nothing_is_compared(name: str) -> None:
    with pytest.raises(DataError, match="split"):
        table(name, records("a", BEST, split=[]))


def test_what_is_marked_stands_out_in_every_format() -> None:
    shown = [table("comparison", records("a", BEST), records("b_&\ue000", NEAR), records("c", FAR))]
    assert "85.33 ± 1.75 = " in render(shown, "text")
    assert "| **85.33 ± 1.75** |" in render(shown, "md")
    latex = render(shown, "latex")
    assert r"\textbf{85.33 \ensuremath{\pm} 1.75}" in latex
    assert r" b\_\&\textbackslash{}ue000 " in latex
    assert latex.count(r"\textbf{") == 4
    assert latex.count("{") == latex.count("}")
    rows = list(csv.DictReader(io.StringIO(render(shown, "csv"))))
    assert [row["is_marked"] for row in rows] == ["True"] * 4 + ["False"] * 2


# --- equivalence


def test_equivalence_with_the_reference_by_view() -> None:
    close = [0.895, 0.915, 0.91, 0.90, 0.915, 0.925]
    shown = table("equivalence", records("retrain", RETRAIN), records("a", BEST), records("b", close))
    assert list(shown.shown["method"]) == ["a", "b", "a", "b"]
    assert list(shown.shown["view"]) == ["shard", "shard", "full", "full"]
    tests = [equivalence(minus(v, RETRAIN), 1 / 7, m) for v in (BEST, close) for m in (0.01, 0.03)]
    adjusted = holm([one.p for one in tests])
    for name, at in (("a", 0), ("b", 2)):
        row, one = raw(shown, name), tests[at]
        assert [row["p_holm_within_0.01"], row["p_holm_within_0.03"]] == pytest.approx(adjusted[at : at + 2])
        assert row["p_within_0.03"] == pytest.approx(tests[at + 1].p)
        for column, value in (("smallest_margin", one.smallest_margin), ("detectable", one.detectable)):
            assert row[column] == pytest.approx(value)
        for column in ("low", "high", "standard_error"):
            assert row[column] == pytest.approx(getattr(one.paired, column))
    assert tests[2].smallest_margin is not None
    assert tests[2].detectable is not None
    assert cell(shown, "b", "difference pt", "shard").startswith("-0.17 (")
    assert cell(shown, "b", "smallest margin pt", "shard") == f"{100 * tests[2].smallest_margin:.2f}"
    assert cell(shown, "b", "detectable pt", "shard") == f"{100 * tests[2].detectable:.2f}"
    assert (cell(shown, "b", "p, 3 pt", "shard"), cell(shown, "a", "p, 3 pt", "shard")) == ("<0.001", "1.000")


def test_a_method_that_lacks_a_repetition_is_in_no_family() -> None:
    whole = table("equivalence", records("retrain", RETRAIN), records("a", BEST))
    shown = table("equivalence", records("retrain", RETRAIN), records("a", BEST), records("gif", BEST[:5]))
    assert cell(shown, "gif", "n", "shard") == "5/6"
    assert cell(shown, "gif", "p, 3 pt", "shard") == ""
    assert cell(shown, "gif", "smallest margin pt", "shard") != ""
    assert cell(shown, "gif", "status", "full") == "missing 1"
    assert raw(shown, "a")["p_holm_within_0.03"] == raw(whole, "a")["p_holm_within_0.03"]


def test_without_one_reference_nothing_is_equivalent() -> None:
    assert noted(table("equivalence", records("a", BEST)), "Nothing is compared: the reference (retrain) has no record")
    several = table("equivalence", records("retrain", RETRAIN), records("retrain", RETRAIN, version=2))
    assert noted(several, "several rows")
    for style in STYLES:
        assert render([several], style)


@pytest.mark.parametrize(
    ("name", "column", "view", "apart"),
    [("comparison", "shard: to best", "", "-10.00"), ("equivalence", "difference pt", "shard", "-20.00")],
)
def test_one_repetition_has_differences_and_nothing_more(name: str, column: str, view: str, apart: str) -> None:
    shown = table(name, *(records(method, [0.8 + i / 10]) for i, method in enumerate(("a", "b", "retrain"))))
    assert cell(shown, "a", column, view) == apart
    assert noted(shown, "a (shard), ")
    assert noted(shown, "one repetition has no variance")
    for style in STYLES:
        text = render([shown], style)
        assert "nan" not in text.lower()
        assert "None" not in text
