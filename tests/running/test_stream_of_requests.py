"""`run --stream K`: K requests one after the other, each with its own F1, time, shards and counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from cell_samples import CATALOGUE, GRAPH, cell, surroundings

from unlearnbench.errors import UsageError
from unlearnbench.measure.request_time import holds_first_answers, request_seconds, seconds_by_request
from unlearnbench.protocol import Forget
from unlearnbench.protocol.drawing import draw_edge_stream, draw_edges, draw_feature_stream, draw_features, draw_stream
from unlearnbench.protocol.requests import joined
from unlearnbench.records.record import Record
from unlearnbench.report.frame.frame import frame_of
from unlearnbench.report.publish.evidence import Evidence, Graphs
from unlearnbench.report.publish.submitted import content_problem
from unlearnbench.running.cell_codec import cell_from_plain, cell_to_plain
from unlearnbench.running.config import make_config
from unlearnbench.running.runner import cell_data, run_cell

STREAM, AT_ONCE = Forget(None, 4, stream=3), Forget(None, 12)


def ran(method: str, forget: Forget) -> tuple[Record, dict[str, Any]]:
    record, arrays, _ = run_cell(cell(method, forget=forget), GRAPH, surroundings())
    assert record.status == "ok", record.error
    return record, arrays


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(3)


def test_the_first_request_is_that_without_a_stream_and_all_are_that_of_as_many_nodes() -> None:
    train = torch.arange(100, 150)
    several = draw_stream(STREAM, train, 200, generator())
    (one,) = draw_stream(replace(STREAM, stream=None), train, 200, generator())
    assert several[0].ids.tolist() == one.ids.tolist()
    assert [len(request.ids) for request in several] == [4, 4, 4]
    (all_of_them,) = draw_stream(AT_ONCE, train, 200, generator())
    assert joined(several).ids.tolist() == all_of_them.ids.tolist()


def test_edges_are_drawn_alike() -> None:
    several = draw_edge_stream(replace(STREAM, kind="edge"), GRAPH, 900, generator())
    at_once = draw_edges(replace(AT_ONCE, kind="edge"), GRAPH, 900, generator())
    assert [len(request.ids) for request in several] == [4, 4, 4]
    assert joined(several).ids.tolist() == at_once.ids.tolist()


def test_features_are_drawn_alike() -> None:
    train = torch.arange(100, 150)
    several = draw_feature_stream(replace(STREAM, kind="feature"), train, 200, 7, generator())
    at_once = draw_features(replace(AT_ONCE, kind="feature"), train, 200, 7, generator())
    assert [len(request.nodes) for request in several] == [4, 4, 4]
    assert joined(several).ids.tolist() == at_once.ids.tolist()
    record, _ = ran("sisa", replace(STREAM, kind="feature"))
    assert [request["count"] for request in record.requests] == [4, 4, 4]


def test_without_a_stream_nothing_of_a_cell_is_new() -> None:
    assert AT_ONCE.canonical() == {"kind": "node", "count": 12}
    assert STREAM.canonical() == {"kind": "node", "count": 4, "stream": 3}
    record, arrays = ran("retrain", AT_ONCE)
    assert [set(request) for request in record.requests] == [{"ids_sha256", "count"}]
    assert {name.split("/")[0] for name in arrays if name.count("/") == 2} == {"before", "after"}
    made = cell("sisa", forget=STREAM)
    assert cell_from_plain(cell_to_plain(made), CATALOGUE) == made


@pytest.mark.parametrize("method", ["sisa[num_shards=4]", "tally"])
def test_a_stream_ends_as_one_request_of_all(method: str) -> None:
    (stream, arrays), (one, _) = ran(method, STREAM), ran(method, AT_ONCE)
    assert stream.digests["after"] == one.digests["after"]
    for metric, views in one.metrics.items():
        for view, moments in views.items():
            assert stream.metrics[metric][view]["after"] == moments["after"]
            assert set(stream.metrics[metric][view]) == {"before", "after_1", "after_2", "after"}
    assert len(arrays["forgotten"]) == 12


def test_each_request_has_its_shards_counts_and_seconds() -> None:
    record, arrays = ran("sisa[num_shards=4]", STREAM)
    left = len(arrays["train"])
    assert sum(record.partition["sizes"]) == left
    assert [sum(request["sizes"]) for request in record.requests] == [left - 4, left - 8, left - 12]
    assert sum(request["counts"]["shards_hit"] for request in record.requests) == record.counts["shards_hit"]
    seconds = seconds_by_request(record.phases)
    assert len(seconds) == 3
    assert sum(seconds) == pytest.approx(request_seconds(record.phases))
    assert holds_first_answers(record.unlearn_seconds, record.phases)
    (row,) = frame_of([record]).query("view == 'full'").to_dict("records")
    assert row["f1_micro"] == record.metrics["f1_micro"]["full"]["after"]
    assert not [name for name in row if "after_" in str(name)]


def test_what_a_record_says_of_a_stream_is_checked() -> None:
    made = cell("sisa[num_shards=4]", forget=STREAM)
    record, _ = ran("sisa[num_shards=4]", STREAM)
    data = cell_data(made, GRAPH)
    graphs = Graphs(None, True)
    graphs.of = lambda cell: GRAPH  # type: ignore[method-assign]
    graphs.data_of = lambda cell: data  # type: ignore[method-assign]

    def problem(**changes: Any) -> str:
        evidence = Evidence(Graphs, CATALOGUE, graphs)  # type: ignore[arg-type]
        evidence._array_problem = lambda record, data: ""  # type: ignore[method-assign]
        requests = [dict(request) for request in record.requests]
        requests[1] |= changes
        return evidence.problem(record.model_copy(update={"requests": requests}), made)

    assert problem() == ""
    assert problem(count=3) == "its request counts 3, the protocol draws 4."
    assert "its request is not the one that the protocol draws." in problem(ids_sha256="0" * 64)
    assert "the sizes of its shards after a request add up to 3;" in problem(sizes=[3])
    assert "those of its requests add up to" in problem(counts={"shards_hit": 99})
    assert "metrics" not in content_problem(record)
    assert "requests" not in content_problem(record)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"stream": 1}, "greater than or equal to 2"),
        ({"stream": True}, "true is no number"),
        ({"stream": 2, "forget": "3,4"}, "`forget` names one request, `stream` draws several"),
        ({"stream": 2, "protocol": "poison"}, "forgets what it injects or manipulates, in one request"),
    ],
)
def test_a_stream_that_cannot_be_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make_config({"methods": ["sisa"], **settings})


def test_a_stream_must_leave_training_nodes() -> None:
    with pytest.raises(UsageError, match="The request of 48 nodes leaves none of the 40 training nodes"):
        draw_stream(Forget(None, 12, stream=4), torch.arange(40), 100, generator())
