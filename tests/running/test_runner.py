"""One cell, phase by phase; the rows of PAINS section H that a cell shows."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from cell_samples import GRAPH, Constant, Spy, cell, fake, surroundings

from unlearnbench.component import Spec, canonical_json
from unlearnbench.metrics.base import Metric
from unlearnbench.protocol import Forget
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.running.runner import run_cell, warm_up
from unlearnbench.task import Training


def test_a_cell_of_a_sharded_method_has_everything_a_record_promises():
    made = cell("sisa[num_shards=5]")
    record, arrays, state = run_cell(made, GRAPH, surroundings())
    assert record.status == "ok", record
    assert record.key == made.key
    assert record.label == "sisa[num_shards=5]"
    names = [phase["name"] for phase in record.phases]
    assert names == [
        "fit", "partition", "train", "aggregate", "evaluate",
        "unlearn", "unlearn/locate", "unlearn/retrain", "unlearn/aggregate",
        "state-first", "state-second", "evaluate", "predict-first", "predict-second",
        "predict-full", "evaluate",
    ]  # fmt: skip
    assert not any("peak_gpu_mib" in phase for phase in record.phases)
    assert record.requests[0]["count"] == len(arrays["forgotten"]) == 4
    assert sorted(record.metrics) == ["f1_macro", "f1_micro", "val_f1_macro", "val_f1_micro"]
    for views in record.metrics.values():
        assert sorted(views) == ["full", "shard"]
        assert all(sorted(moments) == ["after", "before"] for moments in views.values())
    assert record.partition["sizes"] == [28] * 5
    assert record.unlearn_seconds > 0
    assert set(state) == {name for name in state if name.startswith("members/")}


def test_stored_predictions_give_the_stored_scores():
    record, arrays, _ = run_cell(cell("sisa[num_shards=5]"), GRAPH, surroundings())
    labels = GRAPH.y[GRAPH.positions(torch.from_numpy(arrays["test"]))].numpy()
    for view in ("shard", "full"):
        right = (arrays[f"after/test/{view}"].argmax(axis=1) == labels).mean()
        assert record.metrics["f1_micro"][view]["after"] == pytest.approx(right)


class Diverging(Constant):
    name = "diverging"

    def unlearn(self, request, retained):
        self.value = torch.tensor([float("nan")])


class Changing(Constant):
    name = "changing"

    def predict(self, query):
        answer = super().predict(query)
        self.value = self.value + 1
        return answer


class Retraining(Constant):
    """Does its retraining inside predict."""

    name = "retraining"

    def fit(self, task):
        super().fit(task)
        self.pending = None

    def unlearn(self, request, retained):
        self.pending = torch.ones(1)

    def predict(self, query):
        if self.pending is not None:
            self.value, self.pending = self.pending, None
        return super().predict(query)


class Raising(Constant):
    name = "raising"

    def unlearn(self, request, retained):
        raise KeyError("what went wrong")


class Leaving(Constant):
    name = "leaving"

    def unlearn(self, request, retained):
        raise SystemExit(3)


class Hungry(Constant):
    name = "hungry"

    def unlearn(self, request, retained):
        raise torch.OutOfMemoryError("no room")


class Greedy(Constant):
    """Asks for the graph of nodes it was told to forget."""

    name = "greedy"

    def fit(self, task):
        super().fit(task)
        self.ids = task.graph.ids

    def predict(self, query):
        query.context(self.ids)
        return super().predict(query)


@pytest.mark.parametrize(
    ("cls", "status", "said"),
    [
        (Diverging, "diverged", "not finite"),
        (Changing, "refused", "changed the deployed parameters"),
        (Retraining, "refused", "changed the deployed parameters"),
        (Raising, "error", "what went wrong"),
        (Leaving, "error", "3"),
        (Hungry, "oom", "no room"),
        (Greedy, "refused", "not retained training nodes"),
    ],
)
def test_what_a_method_does_wrong_becomes_the_status(cls, status, said):
    record, _, _ = run_cell(cell(fake(cls)), GRAPH, surroundings())
    assert record.status == status
    assert record.metrics == {}
    text = " ".join(record.notes) + (record.error["message"] if record.error else "")
    assert said in text
    if status in ("error", "oom"):
        assert cls.__name__ not in record.error["type"]
        assert "unlearn" in record.error["traceback"]


class RaisingMetric(Metric):
    name = "raising"

    def score(self, labels, log_probabilities):
        raise ValueError("no score today")


class OddMetric(RaisingMetric):
    name = "odd"

    def score(self, labels, log_probabilities):
        return {"a": 1}


class NotFinite(RaisingMetric):
    name = "not_finite"

    def score(self, labels, log_probabilities):
        return float("inf")


def test_a_metric_that_fails_costs_no_other_score():
    context = surroundings()
    broken = [Spec("metric", cls.name, 1, cls, cls.Params()) for cls in (RaisingMetric, OddMetric, NotFinite)]
    record, _, _ = run_cell(cell("retrain"), GRAPH, replace(context, metrics=[*broken, *context.metrics]))
    assert record.status == "ok"
    assert {"f1_micro", "f1_macro", "not_finite"} <= set(record.metrics)
    assert record.metrics["not_finite"]["full"]["after"] is None
    notes = " ".join(record.notes)
    assert "no score today" in notes
    assert "odd failed" in notes


def test_a_record_says_what_the_method_claims():
    assert run_cell(cell("retrain"), GRAPH, surroundings())[0].claim == {"claim": "exact", "reason": ""}
    found = run_cell(cell("sisa[num_shards=5]"), GRAPH, surroundings())[0].claim
    assert found == {"claim": "exact-given-partition", "reason": "ids"}


class Boasting(Constant):
    """Reports something that no record can hold."""

    name = "boasting"
    claim_reason = 7


def test_what_no_record_can_hold_is_an_error_of_that_cell():
    record, _, _ = run_cell(cell(fake(Boasting)), GRAPH, surroundings())
    assert record.status == "error"
    assert "claim" in record.error["message"]


def test_an_untouched_model_is_noted():
    record, _, _ = run_cell(cell(fake(Constant)), GRAPH, surroundings())
    assert record.digests["unchanged"]
    assert record.digests["relative_change"] is None
    assert any("unchanged" in note for note in record.notes)
    one_weight = run_cell(cell(fake(Spy)), GRAPH, surroundings())[0]
    assert not one_weight.digests["unchanged"]


def test_records_of_the_same_cell_are_equal_but_for_times():
    first, arrays, _ = run_cell(cell("sisa[num_shards=5]"), GRAPH, surroundings())
    run_cell(cell("retrain"), GRAPH, surroundings())
    second, others, _ = run_cell(cell("sisa[num_shards=5]"), GRAPH, surroundings())
    for name in ("key", "status", "label", "cell", "requests", "metrics", "counts", "partition", "digests"):
        assert getattr(first, name) == getattr(second, name), name
    assert all(np.array_equal(arrays[name], others[name]) for name in arrays)


def test_the_key_covers_every_setting_and_nothing_else():
    base = cell("sisa")
    others = [
        cell("sisa[num_shards=19]"),
        cell("sisa[partitioner=hash]"),
        cell("retrain"),
        cell("sisa", forget=Forget(0.03)),
        cell("sisa", forget=Forget(None, 4)),
        cell("sisa", repetition=1),
        cell("sisa", seed=1),
        cell("sisa", device="cuda"),
        cell("sisa", checksum="other"),
        cell("sisa", training=Training(epochs=8, lr=0.02)),
        cell("sisa", model=resolve(load_catalogue(), "model", "gcn[hidden=32]")),
        replace(base, method=replace(base.method, version=2)),
    ]
    assert len({base.key, *(other.key for other in others)}) == len(others) + 1
    assert cell("sisa[num_shards=20,aggregator=mean]").key == base.key
    assert canonical_json({"b": 1, "a": [1.5]}) == '{"a":[1.5],"b":1}'


@pytest.mark.slow
def test_every_method_warms_up():
    for name in ("retrain", "sisa[num_shards=60]", "grapheraser", "graphrevoker", "graphrevoker[preset=released]"):
        warm_up(cell(name), torch.device("cpu"))
