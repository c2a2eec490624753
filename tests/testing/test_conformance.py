"""Every first-party component conforms; components that are wrong in one thing are told what it is."""

from __future__ import annotations

import re
from importlib import metadata
from typing import Any

import numpy as np
import pytest
import torch
import wrong_plugins
from plugin_samples import FakePoint
from repository import ROOT

from unlearnbench.audits.distance import controls
from unlearnbench.component import Spec
from unlearnbench.hookspecs import KINDS
from unlearnbench.metrics.base import Metric
from unlearnbench.metrics.scoring import score
from unlearnbench.registry.catalogue import Catalogue
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.testing import (
    AggregatorConformance,
    AuditConformance,
    DatasetConformance,
    MetricConformance,
    ModelConformance,
    PartitionerConformance,
    UnlearnerConformance,
)
from unlearnbench.testing.conformance import Conformance, check_component, rules_of
from unlearnbench.testing.graphs import MANY_SHARDS, TOYS, toys
from unlearnbench.testing.rules.base import Fault, Result

pytest_plugins = ["pytester"]

FIRST_PARTY = load_catalogue(entry_points=metadata.entry_points(group="unlearnbench"))
CLASSES: list[type[Conformance]] = [
    AggregatorConformance,
    AuditConformance,
    DatasetConformance,
    MetricConformance,
    ModelConformance,
    PartitionerConformance,
    UnlearnerConformance,
]
# With few epochs, steps and runs: what takes long takes long on toy graphs, too.
SHORT = {
    "bekm": "bekm[rounds=2]",
    "gpa": "gpa[epochs=2,hidden=8]",
    "attention": "attention[epochs=2]",
    "contrastive": "contrastive[epochs=1,projection_width=8]",
    "weighted": "weighted[epochs=2]",
    "ceu": "ceu[iterations=2,damp=0.9]",
    "cognac": "cognac[epochs=2]",
    "d2dgn": "d2dgn[epochs=2]",
    "etr": "etr[ratio=0.1,lr=0.03]",
    "finetune": "finetune[epochs=2]",
    "neggrad-plus": "neggrad-plus[epochs=2]",
    "bad-teacher": "bad-teacher[epochs=2]",
    # A request of a fifth of the nodes is at most five times as important as all nodes.
    "ssd": "ssd[alpha=1]",
    "gif": "gif[iterations=2,scale=100,damp=0.1]",
    "idea": "idea[iterations=2,scale=100,damp=0.1]",
    "gnndelete": "gnndelete[epochs=2]",
    "grapheraser": "grapheraser[partitioner.rounds=2,aggregator.epochs=2]",
    "graphrevoker": "graphrevoker[partitioner.epochs=2,partitioner.hidden=8,aggregator.epochs=1,projection_width=8]",
    "guide": "guide[partitioner.rounds=2]",
    "guided": "guided[rounds=2]",
    "megu": "megu[epochs=2]",
    "over-forget": "over-forget[steps=2]",
    "scrub": "scrub[epochs=2]",
    "exactness": "exactness[runs=5,permutations=99]",
    "controls": "controls[runs=4,permutations=199]",
    "distance": "distance[runs=8,permutations=1999]",
    "membership": "membership[shadows=16]",
    "relearning": "relearning[runs=4,steps=2]",
    "streams": "streams[requests=3,runs=2]",
    "partition-leakage": "partition-leakage[targets=10,worlds=2,same_seed=0,matched=1,draws=19]",
    "sbm": "sbm[num_nodes=60,num_edges=120]",
}
MODELS = {"cgu": "sgc", "scalegun": "sgc", "graph-editor": "sgc", "projector": "sgc"}
COMPONENTS = [(kind, name) for kind in KINDS for name in FIRST_PARTY.names(kind) if (kind, name) != ("dataset", "file")]
LONG = (
    *(("audit", name) for name in ("controls", "distance", "exactness", "relearning", "streams")),
    *(
        ("unlearner", name)
        for name in (
            "bad-teacher",
            "ceu",
            "cgu",
            "cognac",
            "d2dgn",
            "etr",
            "gif",
            "gnndelete",
            "grapheraser",
            "graphrevoker",
            "guide",
            "idea",
            "megu",
            "neggrad-plus",
            "projector",
            "scalegun",
            "scrub",
            "sharded",
            "sisa",
            "smoothed",
            "ssd",
            "tally",
        )
    ),
)


LONG_FAULTS = ("starts-warm", "holds-its-task", "retrains-fifteen", "retrains-every-second")


def with_wrong_ones() -> Catalogue:
    points = [*metadata.entry_points(group="unlearnbench"), FakePoint("wrong", wrong_plugins)]
    return load_catalogue(strict=True, entry_points=points)


WRONG = with_wrong_ones()


def told(spec: Spec, catalogue: Catalogue, model: str = "gcn") -> list[Result]:
    return list(check_component(spec, catalogue, model))


@pytest.mark.parametrize(
    ("kind", "name"), [pytest.param(*one, marks=pytest.mark.slow if one in LONG else ()) for one in COMPONENTS]
)
def test_every_first_party_component_conforms(
    kind: str, name: str, no_network: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controls, "OVERFITTED_EPOCHS", 4)
    spec = resolve(FIRST_PARTY, kind, SHORT.get(name, name))
    results = told(spec, FIRST_PARTY, MODELS.get(name, "gcn"))
    assert [str(fault) for result in results for fault in result.faults] == []
    assert sum(result.status == "ok" for result in results) >= 3
    if kind not in ("dataset", "unlearner"):
        most = {"partitioner": 2}.get(kind, 0)
        assert sum(result.status == "skipped" for result in results) <= most


@pytest.mark.parametrize(
    ("kind", "cls"),
    [pytest.param(*one, marks=pytest.mark.slow if one[1].name in LONG_FAULTS else ()) for one in wrong_plugins.FAULTS],
    ids=lambda value: getattr(value, "name", value),
)
def test_each_fault_is_named_by_the_rule_it_breaks(kind: str, cls: Any) -> None:
    rules, message = wrong_plugins.FAULTS[kind, cls]
    results = told(resolve(WRONG, kind, cls.name), WRONG)
    assert [result.rule for result in results if result.status == "failed"] == rules
    first = next(result for result in results if result.rule == rules[0])
    assert re.search(message, "\n".join(map(str, first.faults)))
    for result in results:
        assert all(fault.what and fault.remedy for fault in result.faults)


def test_a_crash_is_told_once() -> None:
    results = told(resolve(WRONG, "unlearner", "asks-for-the-forgotten"), WRONG)
    faults = [fault for result in results for fault in result.faults]
    assert len({fault.what for fault in faults}) == len(faults)
    skipped = {result.rule: result.skipped for result in results if result.status == "skipped"}
    assert skipped["second-request"] == "not tried while answers fails"
    assert skipped["same-answer"].startswith("not tried: The harness or the component refuses: A query was asked for")


def test_a_refusal_with_a_reason_is_an_answer_on_graphs_out_of_the_ordinary() -> None:
    results = told(resolve(FIRST_PARTY, "unlearner", "gnndelete[epochs=2]"), FIRST_PARTY)
    (last,) = [result for result in results if result.rule == "one-node-left"]
    assert last.status == "ok"
    assert "gnndelete needs" in last.refused[0]


def test_rules_have_names_of_their_own_and_graphs_that_there_are() -> None:
    for kind in KINDS:
        rules = rules_of(kind)
        names = [rule.name for rule in rules]
        assert len(set(names)) == len(names)
        for rule in rules:
            assert set(rule.toys) <= {*TOYS, MANY_SHARDS}
            assert set(rule.needs) <= set(names[: names.index(rule.name)])


def test_the_page_lists_every_rule_and_no_other() -> None:
    page = (ROOT / "docs" / "plugin_hooks.md").read_text(encoding="utf-8")
    for kind in KINDS:
        (row,) = re.findall(rf"^\| {kind} \| (`.*) \|$", page, re.M)
        assert re.findall(r"`([^`]+)`", row) == [rule.name for rule in rules_of(kind)[2:]]


def test_toy_graphs_are_what_they_are_called() -> None:
    made = toys()
    graphs = {name: toy.graph for name, toy in made.items()}
    assert graphs["no edges"].num_edges == 0
    assert graphs["isolated nodes"].num_edges > 0
    assert len(graphs["isolated nodes"].edge_index.unique()) < graphs["isolated nodes"].num_nodes
    assert len(graphs["one class"].y.unique()) == 1
    assert len(graphs["equal nodes"].x.unique(dim=0)) == 1
    assert graphs["a single node"].num_nodes == 1
    assert made["one-node shards"].num_shards == graphs["one-node shards"].num_nodes
    for toy in made.values():
        assert not set(toy.train.tolist()) & set(toy.asked.tolist())
        assert int(toy.train.min()) > toy.whole.num_nodes


# The classes for authors


def test_there_is_a_class_for_every_kind() -> None:
    assert sorted(cls.kind for cls in CLASSES) == sorted(KINDS)


class TestHash(PartitionerConformance):
    spec = "hash"


class TestMean(AggregatorConformance):
    spec = "mean"


class TestRing(DatasetConformance):
    spec = "sbm[num_nodes=60,num_edges=120]"


AUTHOR = """
import pytest
import wrong_plugins
from plugin_samples import FakePoint
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.testing import PartitionerConformance

class TestLosesNodes(PartitionerConformance):
    spec = "loses-nodes"

    @classmethod
    def catalogue(cls):
        return load_catalogue(entry_points=[FakePoint("wrong", wrong_plugins)])
"""


def test_pytest_tells_what_the_command_tells(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(AUTHOR)
    run = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-rs")
    outcomes = run.parseoutcomes()
    assert outcomes["failed"] == 1
    assert outcomes["passed"] >= 6
    run.stdout.fnmatch_lines(["*test_conforms[[]places-every-node[]]*", "*On isolated nodes: It loses nodes:*"])


def test_a_fault_says_where_what_and_what_to_do() -> None:
    assert str(Fault("It is wrong.", "Mend it.", "one class")) == "On one class: It is wrong. Mend it."
    assert str(Fault("It is wrong.", "Mend it.")) == "It is wrong. Mend it."


@pytest.mark.parametrize("scalar", [np.float32, np.float64, np.array, torch.tensor, float, lambda value: [value]])
def test_a_metric_may_return_what_a_run_accepts(scalar: Any) -> None:
    class Accuracy(Metric):
        name = "accuracy"
        summary, reference = "Right predictions.", "a test"

        def score(self, labels: Any, log_probabilities: Any) -> Any:
            if bool(log_probabilities.isnan().any()):
                return scalar(float("nan"))
            return scalar(float((log_probabilities.argmax(dim=1) == labels).float().mean()))

    spec = Spec("metric", "accuracy", 1, Accuracy, Accuracy.Params(), label="accuracy")
    failed = {result.rule for result in check_component(spec, FIRST_PARTY) if result.status == "failed"}
    answers = {("after", "test", "full"): torch.zeros(4, 2)}
    is_accepted = bool(
        score(answers, {"test": torch.zeros(4, dtype=torch.int64), "val": torch.zeros(0, dtype=torch.int64)}, [spec])[0]
    )
    assert ("a-number" not in failed) == is_accepted == (not isinstance(scalar(0.5), list))
