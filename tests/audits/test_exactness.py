"""`exactness`: right methods pass, wrong ones are named by what differs."""

from __future__ import annotations

import functools
import re
from dataclasses import replace
from importlib.metadata import entry_points

import numpy as np
import pytest
import torch
import wrong_methods as wrong
from audit_samples import runs_here
from plugin_samples import FakePoint, plugin_of

from unlearnbench.audits.base import Audit, Finding
from unlearnbench.audits.exactness.bits import equal_bits
from unlearnbench.audits.exactness.counterfactuals import exchanged
from unlearnbench.audits.exactness.exactness import Exactness
from unlearnbench.audits.exactness.graph_access import Log, faults, unlike, watched, with_watched_graph
from unlearnbench.audits.exactness.taint import Search, contains_row, digests_of, overwrite, unique_rows
from unlearnbench.audits.exactness.trials import Trials
from unlearnbench.audits.running import make_audit_plan
from unlearnbench.graph import Graph
from unlearnbench.protocol import Request
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.running.config import make_config
from unlearnbench.running.execute import execute
from unlearnbench.statistics import energy
from unlearnbench.task import View, make_query
from unlearnbench.testing.audits import toy_subject
from unlearnbench.testing.graphs import FIRST_ID, toy_graph, toy_task

pytestmark = pytest.mark.slow

SETTING = Exactness.Params(runs=6, permutations=99)


@pytest.fixture(scope="module")
def catalogue():
    plugin = FakePoint("wrong", plugin_of(unlearners=[*wrong.RIGHT, *wrong.WRONG, wrong.KeepsANeighbour]))
    return load_catalogue(entry_points=[*entry_points(group="unlearnbench"), plugin])


@pytest.fixture(scope="module")
def found(catalogue):
    """Give what was found of a method, each audited once."""

    def audited_here(text):
        with runs_here():
            return audited(text, catalogue)

    return functools.cache(audited_here)


def audited(text, catalogue, **settings) -> Finding:
    return Exactness(SETTING).examine(toy_subject(text, catalogue=catalogue, epochs=3, **settings))


def failed(finding):
    return {check["name"]: check["differs"] for check in finding.details["checks"] if check["passed"] is False}


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("retrain", "exact"),
        ("sisa[num_shards=4,partitioner=hash]", "exact"),
        ("sisa[num_shards=4]", "exact-given-partition (ids)"),
        ("grapheraser[num_shards=4,aggregator.epochs=1]", "exact-given-partition (content)"),
        (
            "graphrevoker[num_shards=4,partitioner.epochs=3,aggregator.epochs=1,aggregator.sample=12]",
            "exact-given-partition (content)",
        ),
        ("smoothed[method=retrain]", "exact"),
        ("smoothed[method=sisa[num_shards=4,partitioner=hash]]", "exact"),
        ("smoothed[method=sisa[num_shards=4]]", "exact-given-partition (ids)"),
        ("shards", "exact"),
        ("linear", "exact"),
    ],
)
def test_right_methods_show_what_they_claim(text, verdict, catalogue):
    finding = audited(text, catalogue)
    assert finding.verdict == verdict
    assert finding.details["claim"] == verdict
    assert finding.details["claim_holds"]
    assert failed(finding).keys() <= {"own partition", "content"}
    assert finding.notes == ()


# What differs, by the check that must say so. Every method is wrong in one thing and claims to be exact.
NAMED = {
    "keeps-one-in-u": {
        "counterfactual": r"^state differs in aggregator; unlearn\(\) read a graph of 20 nodes .*\(too many: 19;",
        "graphs": r"unlearn\(\): 1 forgotten nodes are in it: 19$",
        "content": "features and labels of forgotten nodes",
    },
    "reuses-one-member": {"counterfactual": r"members/003 \(has the bits from before the request\)"},
    "old-degrees": {"counterfactual": "^state differs in members/000$", "content": "the edges of forgotten nodes"},
    "skips-one": {
        "kept": r"partition \(int64 \[40, 2\]\), with forgotten nodes: 58$",
        "counterfactual": r"members/005 \(has the bits from before the request\), partition",
    },
    "takes-positions-for-ids": {"counterfactual": "members/003, members/005; .* the positions of .* taken for ids"},
    "caches-a-row": {"taint": r"holds copies: \._cache\['rows'\] \(features of 19\)$"},
    "keeps-the-optimiser": {
        "counterfactual": "^state differs in members/000$",
        "content": "features, labels and edges",
        "order": "one part after the other: state differs in members/000",
    },
    "draws-u-from-the-old-list": {"counterfactual": r"a graph of 19 nodes where the other run has one of 20 \(missing"},
    "scores-the-old-members": {
        "counterfactual": "^answers differ .* though the state is equal, and are stale, those from before the request"
    },
    "learns-from-the-old-members": {
        "counterfactual": "^state differs in aggregator$",
        "order": "differs in aggregator",
    },
    "seeds-from-the-stack": {"counterfactual": "^state differs in aggregator, members/003, members/005$"},
    "forgets-features-not-edges": {
        "graphs": "3 forgotten nodes are in it: 19, 46, 58; 12 edges of forgotten nodes are in it: 0-58,",
        "content": "labels and edges of forgotten nodes",
    },
    "forgets-edges-of-a-neighbour": {"graphs": "14 edges between retained nodes are missing: 3-57, 7-57"},
    "leaves-a-label": {"counterfactual": "members/000/often$", "content": "the labels of forgotten nodes$"},
    "warm-starts": {"counterfactual": "members/000$", "content": "features, labels and edges", "order": "members/000"},
    "noop-that-claims": {"counterfactual": r"members/000 \(has the bits from before the request\)$"},
    "declares-its-aggregator": {
        "kept": r"aggregator/weight \(float32 \[6\]\), which is no partition",
        "taint": "_first",
    },
    "retrains-in-predict": {
        "predict": r"^predict\(\) did work of forgetting: its state differs in aggregator, members/003, members/005$",
        "counterfactual": r"members/003 \(has the bits from before the request\)",
    },
    "keeps-anchors": {
        "counterfactual": r"^state differs in anchors \(has the bits from before the request\)",
        "content": "the labels of forgotten nodes$",
    },
    "weighs-by-old-labels": {
        "counterfactual": "^answers differ .* though the state is equal",
        "content": "the labels of forgotten nodes$",
    },
    "restless": {"repeats": "though the state is equal; asked twice, its answers differ"},
}
# A check that would accuse these of something they do not do.
NOT_NAMED = {
    "seeds-from-the-stack": {"content", "graphs", "taint", "kept", "predict"},
    "reuses-one-member": {"graphs", "kept", "predict", "taint"},
    "forgets-edges-of-a-neighbour": {"content", "taint", "kept", "predict"},
    "caches-a-row": {"counterfactual", "own partition", "content", "order", "graphs", "kept", "predict"},
    "declares-its-aggregator": {"counterfactual", "own partition", "content", "order", "graphs", "predict"},
    "takes-positions-for-ids": {"content", "graphs", "taint", "kept", "predict"},
}


@pytest.mark.parametrize("name", [method.name for method in wrong.WRONG])
def test_wrong_methods_are_named_by_what_differs(name, found):
    finding = found(name)
    refuted = r"refuted \((approximate|partial|none|distance unknown)\)"
    assert re.fullmatch(refuted, finding.verdict) or name == "restless"
    assert finding.details["claim"] == "exact"
    assert finding.details["claim_holds"] is False
    verb = " and shows" if name == "restless" else ":"
    assert finding.notes[0].startswith(f"It claims exact{verb} {finding.verdict}.")
    unlearned = failed(finding)
    for check, pattern in NAMED[name].items():
        assert check in unlearned, unlearned
        assert re.search(pattern, unlearned[check]), unlearned[check]
        assert unlearned[check] in finding.notes[0]
    assert not unlearned.keys() & ({"memory"} | NOT_NAMED.get(name, set()))


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("retrain", "exact"),
        ("sisa[num_shards=4,partitioner=hash]", "exact"),
        ("sisa[num_shards=4,slices=3]", "exact-given-partition (ids)"),
    ],
)
def test_in_the_transductive_setting_methods_show_what_they_claim(text, verdict, catalogue):
    with runs_here():
        finding = audited(text, catalogue, setting="transductive")
    assert (finding.verdict, finding.details["claim_holds"]) == (verdict, True)
    assert failed(finding).keys() <= {"own partition", "content"}


def test_a_forgotten_node_kept_as_an_unlabelled_neighbour_is_named(catalogue):
    with runs_here():
        finding = audited("keeps-a-neighbour", catalogue, setting="transductive", forget=0.05)
    assert finding.verdict.startswith("refuted")
    differs = failed(finding)
    assert "graphs read in unlearn(): 1 forgotten nodes are in it: 19;" in differs["graphs"]
    assert "edges of forgotten nodes are in it" in differs["graphs"]
    assert "state differs in members/000" in differs["counterfactual"]
    assert "features and edges of forgotten nodes" in differs["content"]


def test_a_method_that_changes_nothing_forgets_nothing_and_a_retrained_one_is_near(found):
    noop = found("noop-that-claims")
    assert (noop.verdict, noop.scores) == ("refuted (none)", ())
    assert noop.notes[-1] == "Forgetting changed no parameter."
    near = found("old-degrees")
    (score,) = near.scores
    assert near.verdict == "refuted (approximate)"
    assert score.state == "valid"
    assert score.value < 0.1 * score.controls["noop"]
    hidden = found("scores-the-old-members")
    assert hidden.verdict == "refuted (none)"
    assert hidden.scores[0].value == pytest.approx(hidden.scores[0].controls["noop"])


@pytest.mark.parametrize("text", ["noop", "noop-full"])
def test_controls_that_keep_the_weights_show_the_nothing_they_claim(text, found):
    finding = found(text)
    assert (finding.verdict, finding.details["claim_holds"], finding.scores) == ("none", True, ())
    assert failed(finding)["counterfactual"] == "state differs in members/000 (has the bits from before the request)"
    served = failed(finding).get("graphs", "")
    assert served == (
        "graphs read in predict(): 3 forgotten nodes are in it: 19, 46, 58;"
        " 16 edges of forgotten nodes are in it: 0-58, 1-58, 8-58, 19-57, 25-46, ..."
        if text == "noop-full"
        else ""
    )


def test_a_method_that_leaks_half_is_nearer_than_one_that_does_nothing(catalogue):
    audit = Exactness(Exactness.Params(runs=10, permutations=199))
    finding = audit.examine(toy_subject("retrain-leak", catalogue=catalogue, forget=0.1))
    (score,) = finding.scores
    assert 0.1 < score.effect < 0.9
    assert finding.verdict == ("approximate" if score.effect <= 0.5 else "partial")
    assert "3 forgotten nodes are in it" in failed(finding)["graphs"]


@pytest.mark.parametrize(("text", "holds"), [("learns-from-the-old-members", False), ("vague", None)])
def test_where_the_untouched_model_is_not_rejected_only_a_claim_of_exactness_is_refuted(text, holds, catalogue):
    # One node without edges among 200: no difference is to be seen.
    graph = toy_graph(200, edges=0)
    finding = audited(text, catalogue, graph=graph, forget=0.005)
    assert finding.verdict == ("cannot tell" if holds is None else "refuted (distance unknown)")
    assert finding.details["claim_holds"] is holds
    assert any(note.startswith("It claims") for note in finding.notes) == (holds is False)
    assert finding.scores[0].state == "cannot tell"
    assert finding.scores[0].effect is None


def test_a_request_of_one_node_has_no_order(catalogue):
    finding = audited("linear", catalogue, forget=0.017)
    (order,) = [check for check in finding.details["checks"] if check["name"] == "order"]
    assert order["passed"] is None
    assert finding.verdict == "exact"


def test_effort_counts_the_two_sample_test_for_methods_that_do_not_claim_to_be_exact(catalogue):
    audit = Exactness(SETTING)
    assert audit.effort(toy_subject("retrain", catalogue=catalogue).cell.method) == {"retrain": 11}
    assert audit.effort(toy_subject("noop", catalogue=catalogue).cell.method) == {"noop": 4 + 2 * 6}


def test_watching_changes_no_bit_and_sees_every_graph_read():
    graph = toy_graph(first_id=FIRST_ID)
    task, log = toy_task(graph), Log()
    seen = with_watched_graph(task, log)
    cut = seen.without(Request(graph.ids[:5]))
    for name in ("x", "y", "edge_index", "ids"):
        assert torch.equal(getattr(cut.graph, name), getattr(task.without(Request(graph.ids[:5])).graph, name))
    with log.section("read"):
        part = cut.graph.induced(graph.ids[10:20])
        assert log.reads("read") == []
        assert part.x.shape == (10, 8)
        (sight,) = log.reads("read")
        assert torch.equal(sight.ids, graph.ids[10:20])
        assert torch.equal(sight.pairs, part.ids[part.edge_index])
        assert part.y.shape == (10,)
        assert len(log.reads("read")) == 1
    query = with_watched_graph(make_query(graph, graph.ids[5:50], graph.ids[50:], View.SHARD, task.device), log)
    with log.section("asked"):
        query.context(graph.ids[5:10]).edge_index.sum()
    assert [len(sight.ids) for sight in log.reads("asked")] == [15]


def test_faults_of_graphs_against_a_path_of_five_nodes():
    edges = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
    whole = Graph(
        torch.rand(5, 2), torch.zeros(5).long(), torch.cat([edges, edges.flip(0)], 1), torch.arange(5) + 10, 2
    )
    request, log = Request(torch.tensor([12])), Log()
    right = whole.without(request.ids)
    with log.section("good"):
        _ = watched(right, log).x, watched(right.induced(torch.tensor([10, 14])), log).x
    assert faults(log.reads("good"), right, request) == []
    with log.section("bad"):
        _ = watched(replace(whole, edge_index=torch.tensor([[1, 2, 0], [2, 1, 4]])), log).x
    assert faults(log.reads("bad"), right, request) == [
        "1 forgotten nodes are in it: 12",
        "2 edges of forgotten nodes are in it: 11-12, 12-11",
        "4 edges between retained nodes are missing: 10-11, 11-10, 13-14, 14-13",
        "1 edges are in it that the graph does not have: 10-14",
    ]
    with log.section("sparse"):
        _ = watched(replace(right, edge_index=right.edge_index[:, :0]), log).x
    assert len(faults(log.reads("sparse"), right, request)) == 1
    assert faults(log.reads("sparse"), right, request, log.reads("sparse")) == []


def test_sets_of_nodes_that_differ_are_named_beside_the_most_similar():
    log = Log()

    def reads(section, *sets):
        graph = watched(toy_graph(20, first_id=5), log)
        with log.section(section):
            for nodes in sets:
                _ = graph.induced(torch.tensor(nodes)).x
        return log.reads(section)

    ours = reads("ours", [6, 7, 8], [9, 10, 12], [15, 16])
    others = reads("others", [6, 7, 8], [9, 10, 11], [20, 21, 6])
    assert unlike(ours, others, [torch.arange(20) + 5]) == [
        "a graph of 3 nodes where the other run has one of 3 (too many: 12; missing: 11)",
        "15, 16, the positions of 6, 20, 21 taken for ids",
    ]


def test_exchanged_content_leaves_ids_and_everything_among_others(catalogue):
    trials = Trials(toy_subject("linear", catalogue=catalogue, forget=0.1))
    graph, ids = trials.subject.train_graph, trials.request.ids
    at = graph.positions(ids)
    for part in ("features", "labels", "edges"):
        other = exchanged(trials, [part])
        assert torch.equal(other.ids, graph.ids)
        for name in ("x", "y", "edge_index"):
            assert torch.equal(getattr(other.without(ids), name), getattr(graph.without(ids), name))
        assert bool((other.x[at] != graph.x[at]).any(dim=1).all()) == (part == "features")
        assert bool((other.y[at] != graph.y[at]).all()) == (part == "labels")
        pairs = {tuple(pair) for pair in other.edge_index.t().tolist()}
        assert (pairs != {tuple(pair) for pair in graph.edge_index.t().tolist()}) == (part == "edges")
        assert pairs == {pair[::-1] for pair in pairs}


def test_rows_are_found_wherever_they_lie_and_only_if_one_node_has_them():
    graph = Graph(
        torch.tensor([[0.0, 1, 2], [0, 1, 2], [0, 3, 0], [0, 0, 0], [5, 0, 6]]),
        torch.zeros(5).long(),
        torch.zeros(2, 0).long(),
        torch.arange(5),
        2,
    )
    rows = unique_rows(graph, torch.arange(5))
    assert rows.keys() == {2, 4}
    memory = torch.tensor([9.0, 0, 3, 0, 5, 0, 7])
    assert contains_row(memory, rows[2])
    assert contains_row(memory.double(), rows[2])
    assert not contains_row(memory, rows[4])
    assert not contains_row(torch.tensor([3.0, 0]), rows[2])
    assert not contains_row(torch.tensor([0, 3, 0]), rows[2])


def test_the_search_finds_marks_copies_and_ids_and_lets_known_tensors_be():
    graph = toy_graph(30, first_id=FIRST_ID)
    ids = graph.ids[3:6]
    own = Graph(graph.x.clone(), graph.y.clone(), graph.edge_index, graph.ids, 3)
    overwrite(own, Request(ids))
    assert bool(own.x[3:6].isnan().all())
    assert not bool(own.x[:3].isnan().any())
    known = digests_of([graph.edge_index])

    class Method:
        def __init__(self):
            self.labels = own.y[4:5]
            self.inner = {"a": [own.x.t()]}
            self.sparse = torch.eye(4).mul(3).to_sparse()
            self.again = graph.edge_index.clone()
            self.copy = (1, graph.x[5].double())
            self.nodes = ids.clone()
            self.constant = torch.zeros(99)

    search = Search(graph, ids, known)
    search(Method())
    assert sorted(search.marked) == [".inner['a'][0] (features)", ".labels (labels)"]
    assert search.copies == [f".copy[1] (features of {FIRST_ID + 5})"]
    assert len(search.others) == 2
    assert f".nodes (int64, 3 numbers, among them {FIRST_ID + 3}, " in sorted(search.others)[0]
    assert ".sparse.indices" in sorted(search.others)[1]


def test_bits_are_compared_not_values():
    assert equal_bits(torch.tensor([torch.nan]), torch.tensor([torch.nan]))
    assert not equal_bits(torch.tensor([0.0]), torch.tensor([-0.0]))
    assert not equal_bits(torch.tensor([1.0]), torch.tensor([1]))


def test_energy_of_three_runs_a_side_by_hand():
    matrix = np.zeros((4, 4))
    for (one, other), far in {(0, 1): 1, (2, 3): 2, (0, 2): 3, (0, 3): 4, (1, 2): 5, (1, 3): 6}.items():
        matrix[one, other] = matrix[other, one] = far
    assert energy.energy(matrix, np.array([0, 1]), np.array([2, 3])) == 2 * 4.5 - 1 - 2


def test_distances_are_roots_of_jensen_shannon_divergences():
    table = np.array([[[1.0, 0.0]], [[0.0, 1.0]], [[0.5, 0.5]]])
    half = np.log(2) - (0.75 * np.log(4 / 3) + 0.25 * np.log(4)) * 0
    found = energy.distances(table)
    assert found[0, 1] == pytest.approx(np.sqrt(half))
    mixed = -(0.75 * np.log(0.75) + 0.25 * np.log(0.25)) - np.log(2) / 2
    assert found[0, 2] == pytest.approx(np.sqrt(mixed))
    assert found[0, 0] == 0


def test_permutations_reject_what_differs_and_see_which_is_nearer():
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(0.2, 1, (8, 9)), rng.normal(4, 1, (8, 9)), rng.normal(0, 1, (8, 9))])
    matrix = np.linalg.norm(points[:, None] - points[None], axis=2)
    near, far, target = np.arange(8), np.arange(8, 16), np.arange(16, 24)
    assert energy.differ_p(matrix, far, target, 199, rng) == 1 / 200
    assert energy.differ_p(matrix, near, target, 199, rng) > 0.05
    assert energy.nearer_p(matrix, near, far, target, 199, rng) < 0.05
    assert energy.nearer_p(matrix, far, near, target, 199, rng) > 0.9


@pytest.mark.long
@pytest.mark.slow
def test_the_verdicts_of_first_party_methods_on_digits(catalogue, tmp_path):
    few = "partitioner.epochs=2,aggregator.epochs=1,aggregator.sample=99"
    methods = f"sisa[partitioner=hash],sisa,grapheraser[aggregator.epochs=1],graphrevoker[{few}]"
    config = make_config(
        {
            "methods": methods,
            "datasets": "digits",
            "repetitions": 1,
            "epochs": 2,
            "num_shards": 4,
            "forget_ratio": 0.05,
            "out": str(tmp_path),
        },
        "a test",
    )
    plan = make_audit_plan(config, ["exactness"], catalogue)
    records = execute(plan, compute=Audit.auditor(catalogue))
    assert {record.label.partition("[")[0]: record.status for record in records}.keys() >= {"retrain", "grapheraser"}
    found = {record.label: (record.audit or {})["verdict"] for record in records}
    assert list(found.values()) == [
        "exact",
        "exact",
        "exact-given-partition (ids)",
        "exact-given-partition (content)",
        "exact-given-partition (content)",
    ]
