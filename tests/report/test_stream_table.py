"""The table and the figure of streams, on records whose numbers are worked by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from record_samples import make_record

from unlearnbench.errors import NothingMatchedError
from unlearnbench.records.record import Record
from unlearnbench.report.figures.stream import draw_stream
from unlearnbench.report.frame.frame import frame_of
from unlearnbench.report.frame.stream import postponed, stream_steps
from unlearnbench.report.tables.index import build_tables
from unlearnbench.report.tables.render import render
from unlearnbench.report.tables.stream import every

PARTS = ("state-first", "predict-first")


def streamed(method: str, scores: list[float], seconds: list[float], sizes: list[Any], repetition: int = 0) -> Record:
    """Make a record of a stream: F1 before it and after each request, and what each request took."""
    moments = ["before", *(f"after_{n}" for n in range(1, len(seconds))), "after"]
    phases = [
        {"name": name, "seconds": value if name == "unlearn" else 0.0, "peak_rss_mib": 500.0}
        for value in seconds
        for name in ("unlearn", *PARTS)
    ]
    requests = [{"count": 5, "counts": {"shards_hit": 2}, "sizes": one} for one in sizes[1:]]
    return make_record(
        method,
        repetition,
        protocol={"forget": {"kind": "node", "count": 5, "stream": len(seconds)}},
        metrics={"f1_micro": {view: dict(zip(moments, scores, strict=True)) for view in ("shard", "full")}},
        seconds=sum(seconds),
        phases=phases,
        requests=requests,
        partition=None if sizes[0] is None else {"sizes": sizes[0]},
    )


def records() -> list[Record]:
    nothing = [None] * 4
    retrain = [streamed("retrain", [0.8, 0.7, 0.6, 0.5], [1.0, 2.0, 3.0], nothing, r) for r in (0, 1)]
    sizes = [[10, 12], [7, 10], [2, 10], [0, 7]]
    sisa = [streamed("sisa", [0.6, 0.6, 0.5, 0.4], [0.5, 0.5, 0.5], sizes, r) for r in (0, 1)]
    return [*retrain, *sisa]


def test_a_row_for_each_method_and_moment() -> None:
    (table,) = build_tables(frame_of(records()), "stream")
    rows = table.data.set_index(["method", "request"])
    assert list(rows.loc["retrain", "forgotten"]) == [0, 5, 10, 15]
    assert list(rows.loc["retrain", "cumulative_seconds_mean"]) == [0, 1, 3, 6]
    assert list(rows.loc["sisa", "f1_micro_full_mean"]) == [0.6, 0.6, 0.5, 0.4]
    assert list(rows.loc["sisa", "times_retrain"].dropna()) == pytest.approx([0.5, 1 / 3, 0.25])
    assert list(rows.loc["sisa", "empty_shards"]) == [0, 0, 0, 1]
    assert (rows.loc[("sisa", 1), "smallest_shard"], rows.loc[("sisa", 1), "largest_shard"]) == (7, 10)
    shown = table.shown[table.shown["method"] == "sisa"].iloc[3]
    assert (shown["retired"], shown["shards hit"], shown["peak MiB"]) == ("1.0", "2.0", "500")
    assert "3 times 5 nodes" in table.caption


def test_retrain_may_wait_until_several_requests_have_come() -> None:
    (table,) = build_tables(frame_of(records()), "stream")
    late = table.data[table.data["method"] == "retrain every 2 requests"]
    assert list(late["f1_micro_shard_mean"]) == [0.8, 0.8, 0.6, 0.6]
    assert list(late["cumulative_seconds_mean"]) == [0, 0, 2, 2]
    assert list(late["times_retrain"].dropna()) == pytest.approx([0, 2 / 3, 1 / 3])
    assert (every(9), every(10)) == (2, 5)
    steps = stream_steps(records()[0], "shard")
    assert [step["f1"] for step in postponed(steps, 3)] == [0.8, 0.8, 0.8, 0.5]


def test_records_without_a_stream_have_no_such_table_and_streams_no_curve_of_one_request() -> None:
    assert stream_steps(make_record(), "shard") == []
    with pytest.raises(NothingMatchedError, match="Table stream: nothing"):
        build_tables(frame_of([make_record()]), "stream")
    with pytest.raises(NothingMatchedError, match="Table cost: nothing"):
        build_tables(frame_of(records()), "cost")
    (summary,) = build_tables(frame_of(records()), "summary")
    assert not [name for name in summary.shown if "after" in name]


@pytest.mark.parametrize("style", ["text", "md", "latex", "csv", "json"])
def test_it_is_written_in_every_format_for_one_repetition_too(style: str) -> None:
    one = [record for record in records() if record.cell["repetition"] == 0]
    for chosen in (records(), one):
        text = render(build_tables(frame_of(chosen), "stream"), style)
        assert "nan" not in text.lower()
        assert "None" not in text


def test_the_figure_has_a_line_for_each_method(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    tables = build_tables(frame_of(records()), "stream")
    draw_stream(tables, tmp_path / "stream.png")
    assert (tmp_path / "stream.png").stat().st_size > 10_000
