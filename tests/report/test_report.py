from __future__ import annotations

import csv
import io
import math
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from record_samples import make_record

from unlearnbench.errors import NothingMatchedError, UsageError
from unlearnbench.records.record import Record
from unlearnbench.records.store import Store
from unlearnbench.report import frame_of, load_records
from unlearnbench.report.frame.aggregate import Aggregate, aggregate
from unlearnbench.report.frame.names import shown_forget, shown_method
from unlearnbench.report.frame.record_groups import distinguish, group_records
from unlearnbench.report.tables.core import EVERY_GROUP
from unlearnbench.report.tables.index import build_tables
from unlearnbench.report.tables.render import csv_text, escaped_latex, render
from unlearnbench.report.tables.table import Table
from unlearnbench.statistics.averages import geometric_mean, mean, sample_sd


def save(root: Path, *records: Record) -> None:
    for record in records:
        store = Store(root, record.machine)
        (store.save_failure if record.is_failure else store.save)(record)


def only(tables: list[Table]) -> Table:
    assert len(tables) == 1
    return tables[0]


def aggregate_of(*records: Record) -> Aggregate:
    (group,) = group_records(frame_of(records))
    return aggregate(group)


def numbers(*records: Record) -> pd.DataFrame:
    return aggregate_of(*records).data.set_index("method")


def table(*records: Record, name: str = "summary") -> Table:
    return only(build_tables(frame_of(records), name))


def cell(shown: Table, method: str, column: str) -> str:
    return str(shown.shown.set_index("method").loc[method, column])


# --- the frame


def test_one_row_per_record_and_view(tmp_path: Path) -> None:
    save(tmp_path, make_record("sisa", 2, seed=5, shards_hit=8), make_record())
    frame = load_records(tmp_path)
    assert list(zip(frame["method"], frame["view"], strict=True)) == [
        ("retrain", "full"),
        ("retrain", "shard"),
        ("sisa", "full"),
        ("sisa", "shard"),
    ]
    row = frame[(frame["method"] == "sisa") & (frame["view"] == "shard")].iloc[0]
    assert (row["f1_micro"], row["f1_micro_before"], row["f1_macro"]) == (0.80, 0.81, 0.70)
    assert (row["repetition"], row["seed"], row["machine"], row["device"]) == (2, 5, "m-0001", "cpu")
    assert (row["unlearn_seconds"], row["partition_seconds"], row["train_seconds"]) == (1.0, 0.25, 2.0)
    assert (row["shards_hit"], row["node_epochs"], row["steps"]) == (8, 1000, 100)
    assert (row["forget"], row["torch"], row["threads"], row["exclusive"]) == ("0.5 % of nodes", "2.13.0", 1, True)
    assert frame.columns.is_unique


def test_what_was_not_measured_is_missing_and_never_zero() -> None:
    row = frame_of([make_record(phases=[{"name": "train", "seconds": None}], seconds=None, exclusive=None)]).iloc[0]
    for column in ("unlearn_seconds", "train_seconds", "partition_seconds", "unlearn_peak_gpu_mib", "shards_hit"):
        assert pd.isna(row[column]), column
    assert pd.isna(row["exclusive"])


def test_phases_of_one_name_add_up_and_peaks_are_the_highest_inside() -> None:
    phases = [
        {"name": "fit", "seconds": 9.0, "peak_rss_mib": 500},
        {"name": "train", "seconds": 1.0, "peak_rss_mib": 900},
        {"name": "train", "seconds": 2.5, "peak_rss_mib": None},
        {"name": "unlearn", "seconds": 4.0, "peak_rss_mib": 300},
        {"name": "unlearn/retrain", "seconds": 3.0, "peak_rss_mib": 310},
    ]
    row = frame_of([make_record(phases=phases)]).iloc[0]
    assert (row["train_seconds"], row["unlearn_retrain_seconds"]) == (3.5, 3.0)
    assert (row["fit_peak_rss_mib"], row["unlearn_peak_rss_mib"]) == (900, 310)


def test_a_failure_has_rows_without_metrics() -> None:
    frame = frame_of([make_record(status="oom")])
    assert list(frame["view"]) == ["full", "shard"]
    assert frame["f1_micro"].isna().all()
    assert set(frame["error_type"]) == {"ValueError"}


def test_metrics_of_a_plugin_get_columns() -> None:
    frame = frame_of([make_record(metrics={"accuracy": {"shard": {"before": 0.1, "after": 0.2}}})])
    assert frame[["view", "accuracy_before", "accuracy"]].to_numpy().tolist() == [["shard", 0.1, 0.2]]


@pytest.mark.parametrize("tail", ["", "records"])
def test_results_or_records_may_be_named(tmp_path: Path, tail: str) -> None:
    save(tmp_path, make_record())
    assert len(load_records(tmp_path / tail)) == 2


def test_nothing_found_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NothingMatchedError, match="no records") as caught:
        load_records(tmp_path)
    assert "unlearnbench run" in caught.value.hint


def test_a_damaged_file_is_warned_about_and_stands_below_every_table(tmp_path: Path) -> None:
    save(tmp_path, make_record(), make_record("sisa"))
    broken = next(tmp_path.glob("records/*/*/sisa/*.json"))
    broken.write_text("{")
    with pytest.warns(UserWarning, match=broken.name):
        frame = load_records(tmp_path)
    assert len(frame.attrs["problems"]) == 1
    for name in EVERY_GROUP:
        assert any(broken.name in note for note in only(build_tables(frame, name)).notes)
    next(tmp_path.glob("records/*/*/retrain/*.json")).write_text("{")
    with pytest.warns(match="not a whole record"), pytest.raises(NothingMatchedError, match="2 files"):
        load_records(tmp_path)


@pytest.mark.parametrize(
    ("label", "preset", "shown"),
    [
        ("graphrevoker", "repaired", "graphrevoker (repaired)"),
        ("graphrevoker[preset=paper]", "paper", "graphrevoker (paper)"),
        ("graphrevoker[preset=paper,sem_weight=0]", "paper", "graphrevoker[sem_weight=0] (paper)"),
        ("sharded[partitioner=bekm[slack=0]]", "", "sharded[partitioner=bekm[slack=0]]"),
        ("my own [label", "x", "my own [label (x)"),
    ],
)
def test_presets_stand_behind_the_name(label: str, preset: str, shown: str) -> None:
    assert shown_method(label, preset) == shown


@pytest.mark.parametrize(
    ("forget", "shown"),
    [
        ({"kind": "node", "ratio": 0.005}, "0.5 % of nodes"),
        ({"kind": "node", "count": 14}, "14 nodes"),
        ({"kind": "node", "count": 1}, "1 node"),
        ({"kind": "node", "ids": [3, 4]}, "2 named nodes"),
        ({"kind": "feature", "ratio": 0.005}, "features of 0.5 % of nodes"),
        ({"kind": "feature", "count": 14}, "features of 14 nodes"),
        ({"kind": "feature", "ids": [3, 4]}, "features of 2 named nodes"),
        ({"kind": "feature", "ids": [[3, 0]]}, "1 named feature value"),
        ({"kind": "feature", "injected": 100}, "injected features of 100 nodes"),
        ({"kind": "feature", "of": 1}, '{"kind":"feature","of":1}'),
        ({"kind": "edge", "of": 1}, '{"kind":"edge","of":1}'),
    ],
)
def test_requests_in_words(forget: dict[str, Any], shown: str) -> None:
    assert shown_forget(forget) == shown


# --- statistics


@given(st.lists(st.floats(1e-6, 1e6), min_size=2, max_size=12), st.randoms(use_true_random=False))
def test_statistics_do_not_depend_on_order(values: list[float], rng: Any) -> None:
    other = values.copy()
    rng.shuffle(other)
    for function in (mean, sample_sd, geometric_mean):
        assert function(values) == function(other)


# --- what may be averaged


def test_repetitions_are_averaged_in_percent() -> None:
    records = [make_record("fake", r, shard=s / 10, full=0.5) for r, s in enumerate((1, 2, 3))]
    shown = table(*records)
    assert cell(shown, "fake", "F1 shard %") == "20.00 ± 10.00"
    assert cell(shown, "fake", "F1 full %") == "50.00 ± 0.00"
    assert cell(shown, "fake", "n") == "3"


def test_one_repetition_has_no_spread() -> None:
    shown = table(make_record(shard=0.8))
    assert cell(shown, "retrain", "F1 shard %") == "80.00"
    for style in ("text", "md", "latex", "csv"):
        assert "nan" not in render([shown], style).lower()


def test_failed_diverged_refused_and_missing_are_counted_apart_and_never_in_n() -> None:
    records = [make_record(repetition=r) for r in range(6)]
    statuses = ["ok", "error", "oom", "diverged", "refused"]
    records += [make_record("gif", r, status=s, shard=0.9 if s == "ok" else 0.0) for r, s in enumerate(statuses)]
    shown = table(*records)
    assert cell(shown, "gif", "n") == "1/6"
    assert cell(shown, "gif", "F1 shard %") == "90.00"
    assert cell(shown, "gif", "status") == "diverged 1, refused 1, failed 2, missing 1"
    assert cell(shown, "retrain", "status") == ""
    assert "gif: failures: error 1, oom 1." in shown.notes
    assert "status" not in table(make_record()).shown


@pytest.mark.parametrize("status", ["ok", "refused"])
def test_a_metric_that_is_null_is_empty(status: str) -> None:
    shown = table(make_record(status=status, shard=None))
    assert cell(shown, "retrain", "F1 shard %") == ""


def test_the_reference_comes_first_then_methods_by_name() -> None:
    shown = table(*(make_record(name) for name in ("sisa", "retrain", "gif", "graphrevoker")))
    assert list(shown.shown["method"]) == ["retrain", "gif", "graphrevoker", "sisa"]


@pytest.mark.parametrize(
    "change",
    [{"sha256": "bb" * 32}, {"protocol_version": 2}, {"model": "gat"}, {"device": "cuda"}, {"dataset": "pubmed"}],
)
def test_what_must_not_be_averaged_makes_tables_of_their_own(change: dict[str, Any]) -> None:
    tables = build_tables(frame_of([make_record(), make_record(repetition=1, **change)]))
    assert [cell(one, "retrain", "n") for one in tables] == ["1", "1"]
    assert tables[0].caption != tables[1].caption


def test_other_versions_and_parameters_make_rows_of_their_own() -> None:
    records = [make_record("sisa"), make_record("sisa", 1, version=2), make_record("sisa", params={"num_shards": 4})]
    shown = table(*records)
    assert list(shown.shown["method"]) == [
        "sisa {params.num_shards=4, version=1}",
        "sisa {version=1}",
        "sisa {version=2}",
    ]
    assert list(shown.shown["n"]) == ["1/2"] * 3


def test_names_are_told_apart_by_what_differs() -> None:
    same = distinguish({'{"a":{}}': "x", "{}": "x"})
    assert len(set(same.values())) == 2
    names = distinguish({'{"a":1,"b":{"c":2}}': "x", '{"a":1,"b":{"c":3}}': "x", '{"a":9}': "y"})
    assert names == {'{"a":1,"b":{"c":2}}': "x {b.c=2}", '{"a":1,"b":{"c":3}}': "x {b.c=3}", '{"a":9}': "y"}


# --- machines and times


def test_one_record_counts_where_two_machines_have_the_cell() -> None:
    records = [make_record(repetition=r, shard=0.8) for r in range(2)]
    records.append(make_record(repetition=0, shard=0.1, machine="m-0000"))
    shown = table(*records)
    assert cell(shown, "retrain", "F1 shard %") == "80.00 ± 0.00"
    data = numbers(*records[:1], records[2])
    assert data.loc["retrain", "f1_micro_shard_mean"] == 0.1  # as many each: the first id


def test_an_outcome_elsewhere_supersedes_a_failure() -> None:
    shown = table(make_record(status="error"), make_record(machine="m-0002", shard=0.7))
    assert cell(shown, "retrain", "F1 shard %") == "70.00"
    assert any("1 failures are left out" in note for note in shown.notes)


def test_times_come_from_one_machine_alone() -> None:
    records = [make_record(repetition=r, seconds=2.0) for r in range(3)]
    records += [make_record("sisa", r, seconds=1.0) for r in range(3)]
    records += [make_record("gif", r, seconds=9.0, machine="m-0002") for r in range(3)]
    shown = table(*records, name="time")
    assert cell(shown, "sisa", "relative to Retrain") == "0.50"
    assert cell(shown, "gif", "unlearn s") == ""
    assert cell(shown, "gif", "n") == "0/3"
    assert "machine m-0001" in shown.caption
    assert any(note.startswith("3 records") and "m-0002" in note for note in shown.notes)
    assert cell(table(*records), "gif", "F1 shard %") != ""


def test_times_come_from_serial_runs_alone() -> None:
    shown = table(make_record(seconds=2.0), make_record(repetition=1, seconds=50.0, backend="local"), name="time")
    assert cell(shown, "retrain", "unlearn s") == "2.000"
    assert any("1 records give no times" in note for note in shown.notes)


def test_the_ratio_is_the_geometric_mean_within_repetitions() -> None:
    retrain, sisa = (1.0, 4.0, 5.0), (0.5, 8.0)
    records = [make_record(repetition=r, seconds=s) for r, s in enumerate(retrain)]
    records += [make_record("sisa", r, seconds=s) for r, s in enumerate(sisa)]
    data = numbers(*records)
    assert data.loc["sisa", "times_retrain"] == pytest.approx(math.sqrt(0.5 * 2.0))
    assert data.loc["sisa", "times_retrain_n"] == 2
    assert data.loc["retrain", "times_retrain"] == 1
    assert data.loc["sisa", "unlearn_seconds_sd"] == pytest.approx(7.5 / math.sqrt(2))


@pytest.mark.parametrize("seconds", [0.0, None])
def test_a_time_that_was_not_measured_has_no_ratio(seconds: float | None) -> None:
    data = numbers(make_record(seconds=1.0), make_record("sisa", seconds=seconds))
    assert pd.isna(data.loc["sisa", "times_retrain"])


def test_without_one_reference_there_is_no_ratio_and_the_reason_is_said() -> None:
    assert any("no record here" in note for note in table(make_record("sisa")).notes)
    shown = table(make_record(), make_record(version=2), make_record("sisa"))
    assert cell(shown, "sisa", "relative to Retrain") == ""
    assert any("several rows" in note for note in shown.notes)


@pytest.mark.parametrize("exclusive", [False, None])
def test_times_of_a_busy_machine_are_marked(exclusive: bool | None) -> None:
    shown = table(make_record(), make_record("sisa", exclusive=exclusive))
    assert cell(shown, "sisa", "unlearn s") == "1.000 *"
    assert cell(shown, "retrain", "unlearn s") == "1.000"
    other = table(make_record(exclusive=exclusive), make_record("sisa"))
    assert cell(other, "sisa", "unlearn s") == "1.000"
    assert cell(other, "sisa", "relative to Retrain") == "1.00 *"
    assert any(note.startswith("* ") and "sisa 1/1" in note for note in shown.notes)


def repeated(method: str, seconds: dict[float, bool], shards_hit: int | None = None) -> list[Record]:
    """Make a record per repetition from its seconds and whether the machine was quiet."""
    return [
        make_record(method, repetition, seconds=one, exclusive=quiet, shards_hit=shards_hit)
        for repetition, (one, quiet) in enumerate(seconds.items())
    ]


def test_three_quiet_repetitions_leave_busy_ones_out_of_times_and_of_nothing_else() -> None:
    reference = repeated("retrain", {1.0: True, 2.0: True, 4.0: True, 90.0: False})
    found = aggregate_of(*reference, *repeated("sisa", {2.0: True, 4.0: True, 8.0: True, 5.0: False}, shards_hit=7))
    row = found.data.set_index("method").loc["sisa"]
    assert (row["n"], row["time_n"], row["quiet_n"], row["timed"]) == (4, 3, 3, 3)
    assert row["unlearn_seconds_mean"] == pytest.approx(14 / 3)
    assert (row["times_retrain"], row["times_retrain_n"]) == (pytest.approx(2.0), 3)
    assert row["shards_hit"] == 7
    assert any(note.startswith("2 of 8 records") for note in found.time_notes)


def test_two_quiet_repetitions_leave_nothing_out_and_the_mark_stays() -> None:
    reference = repeated("retrain", {1.0: True, 2.0: True, 4.0: True, 90.0: False})
    found = aggregate_of(*reference, *repeated("sisa", {2.0: True, 4.0: True, 8.0: False, 90.0: True}))
    row = found.data.set_index("method").loc["sisa"]
    assert row["time_n"] == 3
    pairs = [row["times_retrain_n"], row["ratio_quiet_n"]]
    assert pairs == [4, 2]
    shown = table(*repeated("sisa", {2.0: True, 4.0: True, 8.0: False}))
    assert cell(shown, "sisa", "unlearn s") == "4.667 ± 3.055 *"


def test_memory_is_the_gpus_where_there_is_one_and_empty_with_a_reason_otherwise() -> None:
    gpu = [make_record(device="cuda", peak_gpu_mib=512.0), make_record("sisa", device="cuda")]
    shown = table(*gpu, name="memory")
    assert cell(shown, "retrain", "unlearn MiB") == "512"
    assert cell(shown, "sisa", "unlearn MiB") == ""
    assert any(note.startswith("sisa: no peak of memory") for note in shown.notes)
    shown = table(make_record(), name="memory")
    assert cell(shown, "retrain", "unlearn MiB") == "700"


@pytest.mark.parametrize("name", EVERY_GROUP)
def test_below_every_table_stands_what_made_it(name: str) -> None:
    shown = only(build_tables(frame_of([make_record(), make_record("sisa", version=3)]), name, source="my results"))
    notes = "\n".join(shown.notes)
    for said in (
        "n: repetitions of 1",
        "www24 version 1",
        "cpu",
        "m-0001",
        "sisa 3",
        "gcn 1",
        "torch 2.13.0",
        "epochs 100",
    ):
        assert said in notes
    assert f"unlearnbench report my results --table {name}" in notes
    assert ("View shard" in notes) is (name not in ("time", "memory"))


def test_an_unknown_table_or_format_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="utilty") as caught:
        build_tables(frame_of([make_record()]), "utilty")
    assert "utility" in caught.value.hint
    with pytest.raises(UsageError, match="html"):
        render([table(make_record())], "html")
    with pytest.raises(NothingMatchedError):
        build_tables(frame_of([make_record()]).iloc[:0])


# --- formats

AWKWARD = make_record("sisa", label="=1+1|a_b & 50% #$^~\\{x}", dataset="file:/a_b|c.txt")


def test_text_has_caption_table_and_notes() -> None:
    text = render([table(make_record(), make_record("sisa", shards_hit=7))], "text")
    assert text.startswith("Results: cora, gcn on cpu, forgetting 0.5 % of nodes")
    assert re.search(r"^sisa +1 +80\.00 +82\.00 +1\.000 +1\.00 +7\.0 +700", text, re.MULTILINE)


def test_markdown_rows_have_as_many_cells_as_the_head() -> None:
    text = render([table(make_record(), make_record("sisa", label="a|b_c [d"))], "md")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    counts = {len(re.findall(r"(?<!\\)\|", row)) for row in rows}
    assert len(rows) == 4
    assert len(counts) == 1


def test_latex_escapes_what_latex_reads() -> None:
    text = render([table(AWKWARD)], "latex")
    body = "\n".join(line for line in text.splitlines() if not line.startswith("%"))
    assert "±" not in body
    assert body.count(r"\begin{") == body.count(r"\end{") == 2
    assert r"=1+1|a\_b \& 50\% \#\$" in body
    assert r"\caption{Results: file:/a\_b|c.txt, gcn on cpu, forgetting 0.5 \% of nodes" in body
    row = next(line for line in body.splitlines() if "=1+1" in line)
    assert len(re.findall(r"(?<!\\)&", row)) == 7
    unescaped = re.sub(r"\\([&%$#_{}\\^~]|[a-zA-Z]+)", "", body)
    assert not set(unescaped.replace(" & ", "").replace("&", "")) & set("%$#_^~")
    assert unescaped.count("{") == unescaped.count("}")


def test_latex_of_plain_text() -> None:
    assert escaped_latex("a_b ± 3 † \\") == r"a\_b \ensuremath{\pm} 3 \ensuremath{\dagger} \textbackslash{}"


def test_csv_has_raw_numbers_one_head_and_the_facets() -> None:
    records = [make_record(repetition=r, shard=0.8 + r / 100) for r in range(2)] + [make_record(model="gat"), AWKWARD]
    rows = list(csv.DictReader(io.StringIO(render(build_tables(frame_of(records)), "csv"))))
    assert [row["model"] for row in rows] == ["gat", "gcn", "gcn"]
    assert float(rows[1]["f1_micro_shard_mean"]) == pytest.approx(0.805)
    assert float(rows[1]["f1_micro_shard_sd"]) == pytest.approx(0.01 / math.sqrt(2))
    assert rows[0]["f1_micro_shard_sd"] == ""
    assert rows[2]["method"].startswith("'=1+1")
    assert "±" not in render(build_tables(frame_of(records)), "csv")


FORMULAS = ["=x", "+1", "-1", "@a", "\tx", 'a"b', "a,b", "a\nb"]


@given(st.lists(st.one_of(st.text(max_size=12), st.sampled_from(FORMULAS)), min_size=1))
def test_csv_texts_come_back_and_are_no_formulas(texts: list[str]) -> None:
    written = csv_text(pd.DataFrame({"a": pd.Series(texts, dtype=object), "b": -1.5}))
    rows = list(csv.reader(io.StringIO(written, newline="")))[1:]
    assert [row[1] for row in rows] == ["-1.5"] * len(texts)
    for (found, _), text in zip(rows, texts, strict=True):
        assert found in (text, f"'{text}")
        assert not found.startswith(("=", "+", "-", "@", "\t", "\r", "\n"))


def test_csv_numbers() -> None:
    data = pd.DataFrame({"a": [0.1 + 0.2, 1e-7, 3.0, float("nan")], "b": [1, 2, 3, 4], "c": ["x", "", None, "y"]})
    assert csv_text(data) == "a,b,c\n0.3,1,x\n1e-07,2,\n3,3,\n,4,y\n"
