"""Tables of the paper's experiments; numbers worked by hand on made records."""

from __future__ import annotations

import math
import shutil
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from record_samples import make_record
from scipy.stats import t as student
from scipy.stats import ttest_1samp

import unlearnbench_graphrevoker.paper
from unlearnbench.errors import NothingMatchedError, UsageError
from unlearnbench.records.record import Record
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.report import frame_of, of_cell
from unlearnbench.report.tables.audits import audit_frame_of
from unlearnbench.report.tables.core import EVERY_GROUP
from unlearnbench.report.tables.index import build_tables
from unlearnbench.report.tables.poison import power, recovery
from unlearnbench.report.tables.render import FORMATS, render
from unlearnbench.report.tables.table import Table
from unlearnbench.statistics import corrected_paired_t, detectable_difference
from unlearnbench_graphrevoker.paper.numbers import contradictions, published

WEIGHTS = {"sem_weight": 10.0, "time_weight": 5.0, "contra_weight": 1e-4, "recon_weight": 1e-4}
R = 6
WOBBLE = (0.02, -0.01, 0.0, 0.01, -0.02, 0.0)
"""Of mean 0: what a repetition is above or below a method's mean."""


@pytest.fixture(autouse=True)
def no_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare half of the time: statsmodels collects garbage at every adjustment."""
    monkeypatch.setattr("gc.collect", lambda *_: 0)


def only(tables: list[Table]) -> Table:
    assert len(tables) == 1
    return tables[0]


def build(records: Iterable[Record], name: str, **more: Any) -> list[Table]:
    return build_tables(frame_of(records), name, **more)


def part(name: str, **params: Any) -> dict[str, Any]:
    return {"name": name, "version": 1, "params": params}


def sharded(method: str, partitioner: dict[str, Any], aggregator: dict[str, Any], **more: Any) -> list[Record]:
    """Make a record a repetition, with F1 around `f1` (view full: 0.05 more)."""
    params = {"num_shards": 20, "partitioner": partitioner, "aggregator": aggregator}
    wobble, f1 = more.pop("wobble", WOBBLE), more.pop("f1", 0.8)
    return [
        make_record(method, r, params=params, shard=f1 + by, full=f1 + 0.05 + by, **more) for r, by in enumerate(wobble)
    ]


def revoker(zero: str = "", f1: float = 0.8, **more: Any) -> list[Record]:
    """Make records of graphrevoker with some weights at 0."""
    weights = {**WEIGHTS, **{name: 0.0 for name in zero.split(",") if name}}
    gpa = part("gpa", slack=0.1, **{name: weights[name] for name in ("sem_weight", "time_weight")})
    contrastive = part("contrastive", **{name: weights[name] for name in ("contra_weight", "recon_weight")})
    label = f"graphrevoker[{','.join(f'{name}=0' for name in zero.split(','))}]" if zero else "graphrevoker"
    return sharded("graphrevoker", gpa, contrastive, f1=f1, label=label, **more)


def reference(**more: Any) -> list[Record]:
    return [make_record(repetition=r, shard=0.84 + by, full=0.84 + by, **more) for r, by in enumerate(WOBBLE)]


def line(table: Table, **where: str) -> pd.Series[Any]:
    found = table.shown
    for column, value in where.items():
        found = found[found[column] == value]
    assert len(found) == 1, where
    return found.iloc[0]


def datum(table: Table, **where: str) -> pd.Series[Any]:
    found = table.data
    for column, value in where.items():
        found = found[found[column] == value]
    assert len(found) == 1, where
    return found.iloc[0]


def said(table: Table) -> str:
    return "\n".join(table.notes)


def poisoned(method: str, clean: float, before: float, after: float, fresh: float, **more: Any) -> list[Record]:
    """Make records of the poison; in view full nothing is lost by it."""
    protocol = {"name": "poison", "forget": {"kind": "node", "injected": 100}, "poison": {"nodes": 100, "edges": 10}}
    found = []
    for r, by in enumerate(WOBBLE):
        shard = {"clean": clean + by, "before": before + by, "after": after + by, "fresh": fresh - by}
        full = {"clean": clean, "before": clean, "after": clean, "fresh": clean}
        found.append(
            make_record(method, r, metrics={"f1_micro": {"shard": shard, "full": full}}, protocol=protocol, **more)
        )
    return found


def corrected(method: str, clean: float, before: float, after: float, remaining: float) -> list[Record]:
    """Make records of swapped labels, a quarter known; the remaining classes have one accuracy throughout."""
    poison = {"nodes": 200, "manipulation": "label", "known": 0.25}
    protocol = {"name": "poison", "forget": {"kind": "node", "manipulated": 200, "known": 0.25}, "poison": poison}
    found = []
    for r, by in enumerate(WOBBLE):
        moments = {"clean": clean + by, "before": before + by, "after": after + by, "fresh": clean - by}
        affected = {"shard": moments, "full": dict.fromkeys(moments, clean)}
        others = {view: dict.fromkeys(moments, remaining) for view in affected}
        metrics = {"f1_micro": affected, "accuracy_affected": affected, "accuracy_remaining": others}
        found.append(make_record(method, r, metrics=metrics, protocol=protocol))
    return found


def grid(f1: dict[tuple[str, str], float]) -> list[Record]:
    """Make records of `sharded` for partitioners and aggregators by name; all wobble differently."""
    parts = {"released": part("gpa", balance="released"), "gpa": part("gpa", balance="confidence")}
    found = []
    for at, ((partitioner, aggregator), value) in enumerate(f1.items()):
        written = "gpa[balance=released]" if partitioner == "released" else partitioner
        found += sharded(
            "sharded",
            parts.get(partitioner, part(partitioner)),
            part(aggregator),
            f1=value,
            label=f"sharded[partitioner={written},aggregator={aggregator}]",
            wobble=np.roll(WOBBLE, at),
        )
    return found


ABLATION = [
    *revoker(),
    *revoker("sem_weight", 0.7),
    *revoker("time_weight", 0.79),
    *revoker("sem_weight,time_weight", 0.69),
]
POISON = [*poisoned("retrain", 0.8, 0.7, 0.75, 0.8), *poisoned("sisa", 0.8, 0.796, 0.8, 0.8)]
CORRECTIVE = [*corrected("retrain", 0.8, 0.5, 0.6, 0.9), *corrected("cognac", 0.8, 0.5, 0.77, 0.7)]
GRID = grid(
    {("random", "mean"): 0.70, ("random", "contrastive"): 0.72, ("gpa", "mean"): 0.75, ("gpa", "contrastive"): 0.79}
)
COMPARING = ("partition-ablation", "aggregation-ablation", "poison", "corrective", "factorial")
"""Tables that only those groups give which hold what they compare."""
TABLES = [entry for entry in load_catalogue().all("table") if entry.distribution == "unlearnbench"]
OURS = {entry.name for entry in TABLES}
WITH_NUMBERS = {entry.name for entry in TABLES if entry.against} - {"claims"}
SAMPLES = {
    "partition-ablation": ABLATION,
    "aggregation-ablation": [*revoker(), *revoker("contra_weight", 0.79)],
    "poison": POISON,
    "corrective": CORRECTIVE,
    "factorial": GRID,
    "characteristics": [*reference(), *revoker()],
    "datasets": reference(),
}


# --- every table


def test_every_table_of_an_experiment_has_a_sample_here() -> None:
    assert set(SAMPLES) == {*COMPARING, "characteristics", "datasets"}
    assert {*SAMPLES, *EVERY_GROUP, "claims", "cost", "sweep", "audits", "distances", "forgetting", "stream"} == OURS


@cache
def sample(name: str) -> list[Table]:
    return build(SAMPLES[name], name, source="my results")


@pytest.mark.parametrize("name", SAMPLES)
def test_below_every_table_stands_what_made_it(name: str) -> None:
    for table in sample(name):
        text = said(table)
        for wanted in ("n: ", "rotocol ", "cpu", "m-0001", "unlearnbench 0.1.0"):
            assert wanted in text, wanted
        assert table.notes[-1] == f"Made by: unlearnbench report my results --table {name}"
        if name != "datasets":
            assert "View shard:" in text
            assert "gcn 1" in text


@pytest.mark.parametrize("style", FORMATS)
@pytest.mark.parametrize("name", SAMPLES)
def test_every_table_is_written_in_every_format(name: str, style: str) -> None:
    text = render(sample(name), style)
    assert "nan" not in text.lower()
    assert "None" not in text
    assert len(text.splitlines()) > 1


@pytest.mark.parametrize("name", SAMPLES)
def test_one_repetition_is_enough_for_a_table(name: str) -> None:
    records = [record for record in SAMPLES[name] if record.cell["repetition"] == 0]
    tables = build(records, name)
    for style in FORMATS:
        assert "nan" not in render(tables, style).lower()


@pytest.mark.parametrize("name", COMPARING)
def test_records_without_what_a_table_compares_are_told(name: str) -> None:
    with pytest.raises(NothingMatchedError, match=f"Table {name}") as caught:
        build(reference(), name)
    assert "unlearnbench run --experiment" in caught.value.hint


def test_an_unknown_table_names_the_nearest() -> None:
    with pytest.raises(UsageError) as caught:
        build(reference(), "factorail")
    assert "factorial" in str(caught.value)


# --- utility


def test_the_best_and_what_is_not_worse_is_marked_in_each_view() -> None:
    worse = sharded("sisa", part("random"), part("mean"), f1=0.6)
    near = sharded("grapheraser", part("bekm"), part("weighted"), f1=0.801, wobble=WOBBLE[::-1])
    table = only(build([*reference(), *worse, *near, *revoker()], "utility"))
    rows = list(table.shown["method"])
    marked = {(rows[at], column) for at, column in table.marked}
    assert marked == {(m, f"F1 {v} %") for m in ("grapheraser", "graphrevoker") for v in ("shard", "full")}
    assert "Marked (= in text" in said(table)
    assert only(build([*worse, *near], "summary")).marked == frozenset()
    few = [r for r in (*reference(), *worse, *near) if r.cell["repetition"] < 4]
    assert only(build(few, "utility")).marked == frozenset()
    assert "fewer than 5" in said(only(build(few, "utility")))


def test_a_method_that_forgets_nothing_is_said_to_be_one_and_never_marked() -> None:
    claim = {"claim": "none", "reason": ""}
    noop = [make_record("noop", r, shard=0.9 + by, full=0.83 + by, claim=claim) for r, by in enumerate(WOBBLE)]
    table = only(build([*reference(), *noop, *revoker()], "utility"))
    (note,) = [note for note in table.notes if note.startswith("noop forgets nothing")]
    assert "6.00 (6.00 to 6.00) points in view shard" in note
    assert "-1.00 (-1.00 to -1.00) points in view full" in note
    assert not any(table.shown["method"][at] == "noop" for at, _ in table.marked)
    assert "forgets nothing;" not in said(only(build([*reference(), *revoker()], "utility")))


def test_nothing_is_marked_where_the_split_is_not_known() -> None:
    records = [*reference(protocol={"split": []}), *revoker(protocol={"split": []})]
    table = only(build(records, "utility"))
    assert table.marked == frozenset()
    assert "Nothing is marked: cora" in said(table)


# --- ablations


def test_ablation_by_hand() -> None:
    records = [*revoker(), *revoker("sem_weight", 0.7, wobble=WOBBLE[::-1]), *revoker("time_weight", 0.79)]
    table = only(build(records, "partition-ablation"))
    assert list(table.shown["design"]) == ["all losses", "without L_sem", "without L_time"]
    apart = np.array(WOBBLE[::-1]) - np.array(WOBBLE) - 0.1
    error = apart.std(ddof=1) * math.sqrt(1 / R + 1 / 7)
    reach = student.ppf(0.975, R - 1) * error
    row = datum(table, design="without L_sem", view="shard")
    assert row["difference"] == pytest.approx(-0.1)
    assert (row["low"], row["high"]) == pytest.approx((-0.1 - reach, -0.1 + reach))
    p = 2 * student.sf(0.1 / error, R - 1)
    assert row["p"] == pytest.approx(p)
    # The other design differs by the same everywhere: p = 0, so that Holm leaves the larger one alone.
    assert row["p_holm"] == pytest.approx(p)
    assert row["detectable"] == pytest.approx(detectable_difference(error, R - 1))
    shown = line(table, design="without L_sem")
    assert shown["F1 shard %"] == "70.00 ± 1.41"
    assert shown["shard: change pt"] == f"-10.00 ({-10 - 100 * reach:.2f} to {-10 + 100 * reach:.2f})"
    assert (shown["unlearn s"], shown["train s"], shown["partition s"]) == (
        "1.000 ± 0.000",
        "2.000 ± 0.000",
        "0.250 ± 0.000",
    )
    assert f"view shard: without L_sem {100 * row['detectable']:.2f}, without L_time 0.00." in said(table)
    assert line(table, design="all losses")["shard: p"] == ""


def test_holm_is_over_the_designs_of_one_view() -> None:
    records = [
        *revoker(),
        *revoker("sem_weight", 0.7, wobble=WOBBLE[::-1]),
        *revoker("time_weight", 0.78, wobble=np.roll(WOBBLE, 1)),
        *revoker("sem_weight,time_weight", 0.69, wobble=np.roll(WOBBLE, 2)),
    ]
    table = only(build(records, "partition-ablation"))
    part_of = table.data[(table.data["view"] == "full") & table.data["p"].notna()].sort_values("p")
    least = part_of.iloc[0]
    assert len(part_of) == 3
    assert least["p_holm"] == pytest.approx(3 * least["p"])


def test_designs_are_told_by_canonical_parameters_and_not_by_labels() -> None:
    renamed = [record.model_copy(update={"label": "mine"}) for record in revoker("contra_weight,recon_weight", 0.7)]
    other_shards = [
        make_record(
            "graphrevoker",
            r,
            label="graphrevoker[slack=0]",
            params={"num_shards": 20}
            | {
                "partitioner": part("gpa", slack=0.0, sem_weight=0.0, time_weight=5.0),
                "aggregator": part("contrastive", contra_weight=1e-4, recon_weight=1e-4),
            },
        )
        for r in range(R)
    ]
    table = only(build([*revoker(), *renamed, *other_shards], "aggregation-ablation"))
    assert list(table.shown["design"]) == ["all losses", "without L_contra and L_recon"]
    with pytest.raises(NothingMatchedError):
        build([*revoker(), *other_shards], "partition-ablation")


def test_each_preset_is_an_ablation_of_its_own() -> None:
    presets = [*revoker(preset="repaired"), *revoker("sem_weight", preset="repaired")]
    paper = [*revoker(preset="paper", f1=0.6), *revoker("sem_weight", preset="paper", f1=0.5)]
    first, second = build([*presets, *paper], "partition-ablation")
    assert "Ablation of graphrevoker (paper), partition" in first.caption
    assert "Ablation of graphrevoker (repaired), partition" in second.caption
    assert line(first, design="without L_sem")["F1 shard %"].startswith("50.00")


def test_a_design_that_lacks_a_repetition_is_in_no_family() -> None:
    table = only(
        build([*revoker(), *revoker("sem_weight", 0.7)[:5], *revoker("time_weight", 0.79)], "partition-ablation")
    )
    shown = line(table, design="without L_sem")
    assert (shown["n"], shown["shard: p"], shown["status"]) == ("5/6", "", "missing 1")
    assert shown["shard: change pt"] != ""


# --- against the paper


def test_published_numbers_are_where_they_belong() -> None:
    assert of_cell(published("utility"), "cora", "gcn")["graphrevoker"].f1 == pytest.approx(0.7875)
    assert of_cell(published("partition-ablation"), "cora", "gcn")["graphrevoker"].seconds == 4.65
    assert of_cell(published("time"), "flickr", "sage")["graphrevoker"].source == "Table 3: Flickr, GraphRevoker"
    assert {name for name in WITH_NUMBERS if len(published(name)) > 0} == set(WITH_NUMBERS)
    files = {path.stem for path in Path(unlearnbench_graphrevoker.paper.__file__).parent.glob("*.csv")}
    assert files == set(WITH_NUMBERS)


@pytest.mark.parametrize("name", sorted({*EVERY_GROUP, *COMPARING} - set(WITH_NUMBERS)))
def test_a_table_without_published_numbers_names_those_with_them(name: str) -> None:
    with pytest.raises(UsageError, match=name) as caught:
        build(POISON, name, against="paper")
    for known in WITH_NUMBERS:
        assert known in caught.value.hint


def test_f1_against_the_paper_by_hand() -> None:
    table = only(build([*reference(), *revoker()], "utility", against="paper"))
    sd = np.std(WOBBLE, ddof=1)
    quantile = student.ppf(0.975, R - 1)
    row = datum(table, method="graphrevoker", view="shard")
    assert (row["published_f1_micro"], row["published_sd"]) == pytest.approx((0.7875, 0.0047))
    assert row["source"] == "Table 2: Cora, GraphRevoker"
    # Corrected for training sets that overlap; seven of ten parts are trained on, one is tested on.
    assert row["high"] - 0.8 == pytest.approx(quantile * sd * math.sqrt(1 / R + 1 / 7))
    assert row["one_split_high"] - 0.8 == pytest.approx(quantile * sd * math.sqrt(1 + 1 / R))
    assert row["difference"] == pytest.approx(0.0125)
    assert not row["is_outside"]
    full = datum(table, method="graphrevoker", view="full")
    assert full["difference"] == pytest.approx(0.0625)
    assert full["is_outside"]
    shown = line(table, method="graphrevoker", view="full")
    assert (shown["published %"], shown["ours - published pt"], shown["outside"]) == ("78.75 ± 0.47", "6.25", "x")
    assert list(table.shown["view"]) == ["shard", "shard", "full", "full"]
    assert table.notes[-1].endswith("--table utility --against paper")
    for style in FORMATS:
        assert "nan" not in render([table], style).lower()


def test_one_repetition_says_nothing_of_a_further_split() -> None:
    table = only(build([make_record(shard=0.1)], "utility", against="paper"))
    shown = line(table, view="shard")
    assert (shown["ours %"], shown["one split %"], shown["outside"]) == ("10.00", "", "")
    assert pd.isna(datum(table, view="shard")["is_outside"])


def test_presets_are_compared_and_ablated_rows_are_not() -> None:
    records = [
        *reference(),
        *revoker(preset="paper"),
        *revoker("sem_weight", preset="paper"),
        *sharded("mine", part("a"), part("b")),
    ]
    table = only(build(records, "utility", against="paper"))
    assert set(table.shown["method"]) == {"retrain", "graphrevoker (paper)"}
    assert "Not compared, a loss is switched off: graphrevoker[sem_weight=0] (paper)" in said(table)


def test_ablations_are_compared_design_by_design() -> None:
    f1, time = build(ABLATION, "partition-ablation", against="paper")
    row = datum(f1, method="graphrevoker[sem_weight=0,time_weight=0]", view="shard")
    assert (row["source"], row["published_f1_micro"]) == ("Table 5: Cora, w/o time + sem", pytest.approx(0.7166))
    assert row["difference"] == pytest.approx(0.69 - 0.7166)
    row = datum(time, method="graphrevoker[sem_weight=0]")
    assert row["published_ratio"] == pytest.approx(4.6 / 4.65)
    assert row["ratio"] == pytest.approx(1)
    assert "published relative to all losses" in time.shown
    table = only(build(SAMPLES["aggregation-ablation"], "aggregation-ablation", against="paper"))
    assert datum(table, method="graphrevoker[contra_weight=0]", view="full")["published_f1_micro"] == pytest.approx(
        0.7856
    )


def test_times_against_the_paper_are_ratios_by_hand() -> None:
    seconds = (0.5, 0.4, 0.8)
    records = [make_record(repetition=r, seconds=2.0) for r in range(3)]
    records += [make_record("sisa", r, seconds=value) for r, value in enumerate(seconds)]
    table = only(build(records, "time", against="paper"))
    logs = np.log(np.array(seconds) / 2)
    row = datum(table, method="sisa")
    assert row["published_ratio"] == pytest.approx(5.04 / 24.93)
    assert row["ratio"] == pytest.approx(math.exp(logs.mean()))
    quantile, sd = student.ppf(0.975, 2), logs.std(ddof=1)
    assert row["ratio_high"] == pytest.approx(math.exp(logs.mean() + quantile * sd / math.sqrt(3)))
    assert row["one_split_low"] == pytest.approx(math.exp(logs.mean() - quantile * sd * math.sqrt(4 / 3)))
    assert not row["is_outside"]
    shown = line(table, method="sisa")
    assert (shown["published s"], shown["published relative to Retrain"]) == ("5.04", "0.20")
    assert not any("difference" in column or "ours - " in column for column in table.shown)
    assert "another machine" in said(table)
    assert line(table, method="retrain")["one split x"] == ""


def test_contradictions_of_the_paper_stand_where_they_apply() -> None:
    table = only(build(reference(), "utility", against="paper"))
    assert "78.75 ± 0.47 in Table 2 and Table 6; 77.66 ± 1.60 in Table 5" in said(table)
    appnp = list(contradictions("cora", "appnp"))
    assert "72.95 ± 0.61 in Table 2; 75.35 ± 1.31 in Table 5; 74.27 ± 1.16 in Table 6" in appnp[0]
    assert "83.66 ± 0.71 for retrain with appnp on cora and on lastfm-asia" in appnp[1]
    assert len(list(contradictions("lastfm-asia", "appnp"))) == 1
    everything = published("utility")[["dataset", "model"]].drop_duplicates()
    found = {(d, m) for d, m in everything.itertuples(index=False) if list(contradictions(d, m))}
    assert found == {("cora", "gcn"), ("cora", "appnp"), ("lastfm-asia", "appnp")}


def test_another_request_is_warned_about_and_the_poison_is_not_compared() -> None:
    records = reference(protocol={"forget": {"kind": "node", "ratio": 0.05}})
    assert "The paper forgets 0.5 % of nodes, these records 5 % of nodes" in said(
        only(build(records, "utility", against="paper"))
    )
    with pytest.raises(NothingMatchedError):
        build(POISON, "utility", against="paper")


def test_records_that_the_paper_does_not_have_are_told() -> None:
    with pytest.raises(NothingMatchedError, match="stands in the paper") as caught:
        build(reference(dataset="digits"), "datasets", against="paper")
    assert "cora, citeseer, lastfm-asia, flickr" in caught.value.hint
    with pytest.raises(NothingMatchedError, match="stands in the paper"):
        build(reference(dataset="digits"), "utility", against="paper")


# --- datasets


def test_sizes_are_those_the_loaders_check_for() -> None:
    names = ("cora", "lastfm-asia", "flickr", "digits", "nowhere")
    records = [record for name in names for record in reference(dataset=name)[:2]]
    table = only(build(records, "datasets"))
    row = line(table, dataset="lastfm-asia")
    assert (row["n"], row["nodes"], row["edges"], row["features"], row["classes"]) == (
        "2",
        "7,624",
        "55,612",
        "128",
        "18",
    )
    assert line(table, dataset="digits")["nodes"] == ""
    assert "Size empty: the loader of digits, nowhere" in said(table)
    against = only(build(records, "datasets", against="paper"))
    assert list(against.shown["dataset"]) == ["cora", "flickr", "lastfm-asia"]
    assert line(against, dataset="lastfm-asia")["nodes in the paper"] == "7,264"
    text = said(against)
    assert "has 7,264 nodes, the data 7,624: the same digits in another order" in text
    assert "cora (half of ours: 5,278) about once, those of flickr, lastfm-asia in both directions" in text


# --- characteristics


def test_characteristics_are_measured() -> None:
    gpa, contrastive = part("gpa"), part("contrastive")
    measured = {"edges_kept": 0.3, "label_entropy": 1.5, "graph_entropy": 2.0, "sizes": [1]}
    mine = sharded("graphrevoker", gpa, contrastive, f1=0.82, wobble=WOBBLE[::-1], partition=measured)
    plain = sharded("sharded", gpa, part("mean"), label="sharded[partitioner=gpa,aggregator=mean]", f1=0.8)
    other = sharded("sharded", part("gpa", slack=0.0), part("mean"), label="sharded[partitioner=gpa[slack=0]]", f1=0.1)
    sisa = sharded("sisa", part("random"), part("mean"))
    eraser = sharded("grapheraser", part("bekm"), part("weighted"))
    cell = {**mine[0].cell, "audit": {"name": "exactness", "version": 1, "params": {}}}
    audit = make_record("graphrevoker").model_copy(
        update={"cell": cell, "audit": {"verdict": "exact-given-partition (content)", "scores": []}}
    )
    records = [*reference(), *mine, *plain, *other, *sisa, *eraser]
    table = only(build(records, "characteristics", audits=audit_frame_of([audit])))
    row = line(table, method="graphrevoker")
    assert (row["edges kept %"], row["label entropy %"]) == ("30.00 ± 0.00", "75.00 ± 0.00")
    assert row["removal"] == "exact-given-partition (content)"
    raw = datum(table, method="graphrevoker")
    apart = np.array(WOBBLE[::-1]) - np.array(WOBBLE) + 0.02
    reach = student.ppf(0.975, R - 1) * apart.std(ddof=1) * math.sqrt(1 / R + 1 / 7)
    assert raw["plain_mean"] == "sharded[partitioner=gpa,aggregator=mean]"
    assert (raw["gain_shard_mean"], raw["gain_shard_high"]) == pytest.approx((0.02, 0.02 + reach))
    assert line(table, method="sisa")["gain, shard pt"] == "is the mean"
    assert line(table, method="retrain")["gain, shard pt"] == ""
    assert line(table, method="grapheraser")["gain, shard pt"] == ""
    assert "No gain for grapheraser: no row has the same partitioner" in said(table)
    assert "No verdict for retrain, grapheraser, " in said(table)
    # Another method was audited by a later version: verdicts of both stand.
    later = {**sisa[0].cell, "audit": {**cell["audit"], "version": 2}}
    of_sisa = audit.model_copy(
        update={"cell": later, "key": "f" * 32, "audit": {"verdict": "exact-given-partition (ids)", "scores": []}}
    )
    table = only(build(records, "characteristics", audits=audit_frame_of([audit, of_sisa])))
    removal = {method: line(table, method=method)["removal"] for method in ("graphrevoker", "sisa")}
    assert removal == {"graphrevoker": "exact-given-partition (content)", "sisa": "exact-given-partition (ids)"}


def test_characteristics_beside_what_the_paper_claims() -> None:
    table = only(
        build(
            [*reference(), *revoker(), *revoker("sem_weight"), *sharded("sisa", part("random"), part("mean"))],
            "characteristics",
            against="paper",
        )
    )
    assert list(table.shown["method"]) == ["graphrevoker", "sisa"]
    assert list(table.shown["paper: structure"]) == ["yes", "no"]
    assert list(table.shown.columns).index("paper: structure") + 1 == list(table.shown.columns).index("edges kept %")


# --- poison


@pytest.mark.parametrize(
    ("clean", "before", "after", "share"),
    [
        (0.8, 0.7, 0.75, 0.5),
        (0.8, 0.7, 0.8, 1.0),
        (0.8, 0.7, 0.69, -0.1),
        (0.8, 0.795, 0.8, 1.0),
        (0.8, 0.796, 0.8, None),
    ],
)
def test_recovery_by_hand(clean: float, before: float, after: float, share: float | None) -> None:
    assert recovery(clean, before, after) == (None if share is None else pytest.approx(share))


def test_recovery_is_of_the_means() -> None:
    # Within repetitions the shares are 2 and 0: their mean is 1, that of the means is 2/3.
    values = {"clean": [0.8, 0.9], "poisoned": [0.75, 0.8], "unlearned": [0.85, 0.8], "fresh": [0.8, 0.9]}
    found = power(values)
    assert (found.recovery, found.recovery_fresh) == pytest.approx((0.1 / 0.15, 1.0))
    assert power({moment: [] for moment in values}).recovery is None


def test_poison_table() -> None:
    table = only(sample("poison"))
    row = line(table, method="retrain", view="shard")
    assert [row[f"{moment} %"] for moment in ("clean", "poisoned", "unlearned", "fresh")] == [
        f"{value:.2f} ± 1.41" for value in (80, 70, 75, 80)
    ]
    assert (row["recovery"], row["recovery, fresh"]) == ("0.50", "1.00")
    assert line(table, method="retrain", view="full")["recovery"] == "NA"
    assert line(table, method="sisa", view="shard")["recovery"] == "NA"


def test_a_repetition_that_lacks_a_moment_does_not_count() -> None:
    metrics = {"f1_micro": {"shard": {"clean": 0.9, "before": 0.1, "after": 0.9}, "full": {"clean": 0.9}}}
    lacking = POISON[0].model_copy(update={"metrics": metrics})
    table = only(build([lacking, *POISON[1:]], "poison"))
    row = line(table, method="retrain", view="shard")
    assert (row["n"], row["recovery"]) == ("5/6", "0.50")


# --- corrective


def test_corrective_table_by_hand() -> None:
    table = only(sample("corrective"))
    row = line(table, method="cognac", view="shard")
    assert [row[f"affected, {moment} %"] for moment in ("clean", "poisoned", "unlearned")] == [
        f"{value:.2f} ± 1.41" for value in (80, 50, 77)
    ]
    assert [row[f"remaining, {moment} %"] for moment in ("clean", "poisoned", "unlearned")] == ["70.00 ± 0.00"] * 3
    assert row["recovery"] == "0.90"
    assert line(table, method="retrain", view="shard")["recovery"] == "0.33"
    assert line(table, method="retrain", view="full")["recovery"] == "NA"
    assert "forgetting 25 % of 200 mislabelled nodes" in table.caption
    assert datum(table, method="cognac", view="shard")["remaining_unlearned_mean"] == pytest.approx(0.7)


def test_corrective_views_that_agree_in_every_row_are_shown_once() -> None:
    alike = [
        record.model_copy(
            update={"metrics": {name: dict.fromkeys(views, views["shard"]) for name, views in of.items()}}
        )
        for record, of in ((record, record.metrics) for record in CORRECTIVE)
    ]
    table = only(build(alike, "corrective"))
    assert list(table.shown["view"]) == ["shard and full"] * 2
    assert list(table.data["view"]) == ["shard"] * 2 + ["full"] * 2


def test_micro_f1_of_manipulated_data_is_in_the_table_of_the_poison() -> None:
    text = said(only(build(CORRECTIVE, "poison")))
    assert "clean: trained without the mislabelled nodes" in text
    assert "after forgetting the 25 % of them that are known" in text
    with pytest.raises(NothingMatchedError):
        build(POISON, "corrective")


# --- factorial


def test_factorial_by_hand() -> None:
    matrix, simple, effects = sample("factorial")
    assert list(matrix.shown.columns) == ["view", "partitioner", "mean", "contrastive"]
    assert list(matrix.shown["partitioner"]) == ["random", "gpa"] * 2
    assert line(matrix, view="full", partitioner="gpa")["contrastive"] == "84.00 ± 1.41"
    assert (1, "contrastive") in matrix.marked
    assert (0, "mean") not in matrix.marked
    row = datum(effects, view="shard", level="gpa")
    assert row["mean"] == pytest.approx((0.05 + 0.07) / 2)
    wobble = [np.roll(WOBBLE, at) for at in range(4)]
    apart = (wobble[2] - wobble[0] + wobble[3] - wobble[1]) / 2 + 0.06
    assert row["standard_error"] == pytest.approx(apart.std(ddof=1) * math.sqrt(1 / R + 1 / 7))
    aggregator = datum(effects, view="shard", level="contrastive")
    assert aggregator["mean"] == pytest.approx((0.02 + 0.04) / 2)
    smaller, larger = sorted([row["p"], aggregator["p"]])
    assert sorted([row["p_holm"], aggregator["p_holm"]]) == pytest.approx([2 * smaller, max(2 * smaller, larger)])
    assert (row["over"], row["averaged_over"]) == ("random", "mean; contrastive")
    # With two levels of the other factor the interaction is the test of one difference of gains.
    twice = (wobble[3] - wobble[1]) - (wobble[2] - wobble[0]) + 0.02
    assert row["interaction_p"] == pytest.approx(corrected_paired_t(twice.tolist(), 1 / 7).p)
    gains = {along: datum(simple, view="shard", level="gpa", **{"with": along}) for along in ("mean", "contrastive")}
    assert [gain["mean"] for gain in gains.values()] == [pytest.approx(0.05), pytest.approx(0.07)]
    alone = wobble[2] - wobble[0] + 0.05
    assert gains["mean"]["standard_error"] == pytest.approx(alone.std(ddof=1) * math.sqrt(1 / R + 1 / 7))
    assert len(simple.data) == 8


def test_parts_with_parameters_are_levels_of_their_own() -> None:
    cells = {(p, a): 0.7 for p in ("gpa", "released") for a in ("mean", "mean_log")}
    matrix, _, effects = build(grid(cells), "factorial")
    assert list(matrix.shown["partitioner"])[:2] == ["gpa", "gpa[balance=released]"]
    # Without `random` no partitioner has a base.
    assert set(effects.shown["factor"]) == {"aggregator"}
    assert "No gain of any partitioner: random" in said(effects)


def test_a_cell_that_is_not_there_is_left_out_of_the_averages() -> None:
    cells = {("random", "mean"): 0.7, ("random", "contrastive"): 0.7, ("gpa", "contrastive"): 0.75}
    matrix, _, effects = build(grid(cells), "factorial")
    assert line(matrix, view="shard", partitioner="gpa")["mean"] == ""
    assert "No record: gpa with mean." in said(matrix)
    row = line(effects, view="shard", level="gpa")
    assert (row["averaged over"], row["gain pt"].split()[0]) == ("1", "5.00")


def test_only_rows_of_one_setting_make_a_grid() -> None:
    loose = sharded("sharded", part("bekm"), part("mean"), label="sharded[partitioner=bekm]")
    other = [
        make_record("sharded", r, params={"num_shards": 5, "partitioner": part("gpa"), "aggregator": part("mean")})
        for r in range(R)
    ]
    with pytest.raises(NothingMatchedError):
        build([*loose, *other], "factorial")


# --- LaTeX


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="no pdflatex here")
def test_latex_compiles_as_it_is(tmp_path: Path) -> None:
    hostile = "a_b%c&d#e~f^g<h>i{j}k$l\\m"
    records = [
        make_record(method, r, label=hostile, torch=f"2.{r}") for method in ("sisa", "retrain") for r in range(2)
    ]
    text = render([*build(records, "summary"), *build(records, "comparison")], "latex")
    whole = f"\\documentclass{{article}}\\usepackage{{booktabs}}\\begin{{document}}\n{text}\\end{{document}}\n"
    (tmp_path / "table.tex").write_text(whole, "utf-8")
    arguments = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "table.tex"]
    told = subprocess.run(arguments, cwd=tmp_path, capture_output=True, check=False)
    assert told.returncode == 0, told.stdout[-2000:]
    assert (tmp_path / "table.pdf").exists()


# --- figures


@pytest.mark.slow
def test_the_figure_shows_every_moment_of_every_method(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from unlearnbench.report.figures.colours import MOMENTS
    from unlearnbench.report.figures.poison import draw_poison, poison_figure

    tables = build(
        [*POISON, *(r for m in ("gat", "appnp") for r in poisoned("sisa", 0.7, 0.6, 0.65, 0.7, model=m))], "poison"
    )
    figure = poison_figure(tables)
    panels = [panel for panel in figure.axes if panel.get_visible()]
    assert [panel.get_title() for panel in panels] == [
        f"cora, {model}, view {view}" for view in ("shard", "full") for model in ("appnp", "gat", "gcn")
    ]
    gcn = panels[2]
    assert [text.get_text() for text in gcn.get_xticklabels()] == ["retrain", "sisa"]
    heights = [
        round(bar.get_height(), 6) for bars in gcn.containers if hasattr(bars, "patches") for bar in bars.patches
    ]
    assert heights == [80, 80, 70, 79.6, 75, 80, 80, 80]
    assert len(set(MOMENTS.values())) == 4
    for name, head in (("a.png", b"\x89PNG"), ("a.pdf", b"%PDF")):
        draw_poison(tables, tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(head)


def test_a_figure_that_cannot_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from unlearnbench.report.figures.poison import check_figure

    with pytest.raises(UsageError, match=r"a\.gif"):
        check_figure(tmp_path / "a.gif")
    with pytest.raises(UsageError, match="no folder"):
        check_figure(tmp_path / "nowhere" / "a.png")
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    monkeypatch.delitem(__import__("sys").modules, "matplotlib.figure", raising=False)
    with pytest.raises(UsageError, match="matplotlib") as caught:
        check_figure(tmp_path / "a.png")
    assert 'pip install "unlearnbench[report]"' in caught.value.hint


def test_ttest_agrees_where_there_is_no_overlap() -> None:
    own = {"protocol": {"split": "own"}}
    table = only(
        build([*revoker(**own), *revoker("sem_weight", 0.79, wobble=WOBBLE[::-1], **own)], "partition-ablation")
    )
    apart = np.array(WOBBLE[::-1]) - np.array(WOBBLE) - 0.01
    assert datum(table, design="without L_sem", view="shard")["p"] == pytest.approx(ttest_1samp(apart, 0).pvalue)
