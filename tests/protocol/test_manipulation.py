"""Manipulated labels and edges: what is wrong, what of it is known, and what is measured."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from cell_samples import GRAPH, cell, surroundings
from hypothesis import given, settings
from hypothesis import strategies as st

from unlearnbench.errors import UsageError
from unlearnbench.graph import Graph
from unlearnbench.protocol import Forget, Protocol, protocol
from unlearnbench.protocol.manipulation import add_edges, affected_classes, swap_labels
from unlearnbench.protocol.poison import Poison
from unlearnbench.report.frame.names import shown_forget
from unlearnbench.running.config import make_config
from unlearnbench.running.runner import run_cell
from unlearnbench.testing.graphs import FIRST_ID, toy_graph

TOY = toy_graph(first_id=FIRST_ID)
# Of classes 0, 1, 2 there are 10, 12, 18 training nodes.
TRAIN = torch.cat([TOY.ids[TOY.y == label][:count] for label, count in enumerate((10, 12, 18))]).sort().values


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_the_affected_classes_are_those_with_the_most_training_nodes() -> None:
    assert affected_classes(TOY, TRAIN) == (1, 2)
    # Of three equal ones, the lower two.
    assert affected_classes(TOY, TOY.ids) == (0, 1)


@settings(max_examples=20, deadline=None)
@given(nodes=st.integers(1, 24), seed=st.integers(0, 1000))
def test_labels_are_swapped_between_two_classes_and_nowhere_else(nodes: int, seed: int) -> None:
    before = TOY.checksum()
    wrong, ids, classes = swap_labels(TOY, TRAIN, nodes, rng(seed))
    assert TOY.checksum() == before
    changed = wrong.y != TOY.y
    assert ids.tolist() == TOY.ids[changed].tolist()
    assert len(ids) == nodes
    assert bool(torch.isin(ids, TRAIN).all())
    first, second = (int((TOY.y[changed] == one).sum()) for one in classes)
    assert first - second in (0, 1)
    assert torch.equal(wrong.y[changed], sum(classes) - TOY.y[changed])
    assert replace(wrong, y=TOY.y).checksum() == before


@settings(max_examples=20, deadline=None)
@given(edges=st.integers(1, 60), seed=st.integers(0, 1000))
def test_spurious_edges_join_training_nodes_of_two_classes_that_were_not_joined(edges: int, seed: int) -> None:
    wrong, pairs, classes = add_edges(TOY, TRAIN, edges, rng(seed))
    assert pairs.shape == (edges, 2) == pairs.unique(dim=0).shape
    assert bool(torch.isin(pairs, TRAIN).all())
    assert TOY.y[TOY.positions(pairs)].sort(dim=1).values.unique(dim=0).tolist() == [list(classes)]
    assert not bool(TOY.copies(pairs).any())
    assert wrong.unlinked(pairs).checksum() == TOY.checksum()
    assert len(wrong.pairs()) == len(TOY.pairs()) + edges


def test_every_free_pair_can_be_joined_and_no_more() -> None:
    # Classes 0 and 1 of two nodes each; 0-3 is joined, so that three pairs are free.
    graph = Graph(
        torch.eye(4), torch.tensor([0, 0, 1, 1]), torch.tensor([[0, 3, 0], [3, 0, 1]]), torch.arange(4), 2,
        edge_weight=torch.tensor([2.0, 2.0, 5.0]),
    )  # fmt: skip
    wrong, pairs, _ = add_edges(graph, graph.ids, 3, rng())
    assert pairs.tolist() == [[0, 2], [1, 2], [1, 3]]
    assert wrong.edge_weight is not None
    new = wrong.edge_weight[3:]
    assert torch.equal(new[:3], new[3:])
    assert set(new.tolist()) <= {2.0, 5.0}
    with pytest.raises(UsageError, match="only 3 pairs of training nodes of classes 0 and 1"):
        add_edges(graph, graph.ids, 4, rng())
    with pytest.raises(UsageError, match="5 labels of class 0"):
        swap_labels(toy_graph(num_nodes=8, num_classes=2), torch.arange(8), 10, rng())
    with pytest.raises(UsageError, match="of one"):
        affected_classes(graph, graph.ids[:2])


@pytest.mark.parametrize(
    ("kind", "poison"),
    [
        ("node", Poison(10, manipulation="label")),
        ("edge", Poison(edges=10, manipulation="edge")),
        ("node", Poison(10, 2)),
        ("feature", Poison(10)),
    ],
)
def test_a_part_is_known_which_holds_every_smaller_part(kind: str, poison: Poison) -> None:
    found = []
    for known in (0.01, 0.25, 0.5, 1.0):
        rules = Protocol("poison", forget=Forget(kind=kind), poison=replace(poison, known=known))  # type: ignore[arg-type]
        data = protocol.repetition_data(rules, TOY, 0, "toy", 2)
        assert rules.number_of(TOY) == len(data.request.ids)
        assert data.wrong is not None
        assert data.request.kind == data.wrong.kind == kind
        found.append({str(row) for row in data.request.ids.tolist()})
        assert found[-1] <= {str(row) for row in data.wrong.ids.tolist()}
    assert [len(part) for part in found] == [1, 3, 5, 10]  # 2.5 is rounded up
    assert found[0] < found[1] < found[2] < found[3]


def test_clean_data_has_nothing_wrong_and_test_labels_stay() -> None:
    split = protocol.split(TOY, 0, "toy", 1)
    labels = Protocol("poison", poison=Poison(10, manipulation="label", known=0.5))
    data = protocol.repetition_data(labels, TOY, 0, "toy", 1)
    assert data.clean is not None
    assert data.wrong is not None
    assert torch.equal(data.split.train, split.train)
    assert torch.equal(data.clean, split.train[~torch.isin(split.train, data.wrong.ids)])
    kept = TOY.positions(torch.cat([data.clean, split.val, split.test]))
    assert torch.equal(data.graph.y[kept], TOY.y[kept])
    assert data.affected == affected_classes(TOY, split.train)
    edges = Protocol("poison", forget=Forget(kind="edge"), poison=Poison(edges=10, manipulation="edge", known=0.5))
    data = protocol.repetition_data(edges, TOY, 0, "toy", 1)
    assert data.wrong is not None
    assert data.wrong.apply(data.graph).checksum() == TOY.checksum()


def test_what_a_cell_is_named_by() -> None:
    labels = Protocol("poison", poison=Poison(10, manipulation="label", known=0.25)).canonical()
    assert labels["forget"] == {"kind": "node", "manipulated": 10, "known": 0.25}
    assert labels["poison"] == {"nodes": 10, "manipulation": "label", "known": 0.25}
    assert shown_forget(labels["forget"]) == "25 % of 10 mislabelled nodes"
    edges = Protocol("poison", forget=Forget(kind="edge"), poison=Poison(edges=7, manipulation="edge")).canonical()
    assert edges["forget"] == {"kind": "edge", "manipulated": 7}
    assert edges["poison"] == {"edges": 7, "manipulation": "edge"}
    assert shown_forget(edges["forget"]) == "7 spurious edges"
    # As before there were manipulations.
    assert Protocol("poison", poison=Poison()).canonical()["poison"] == {"nodes": 100, "edges": 10}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"set": {"poison.manipulation": "labels"}}, "Give one of: label, edge|unknown"),
        ({"set": {"poison.manipulation": "label", "poison.edges": 3}}, r"poison\.edges: nothing is said of edges"),
        ({"forget_kind": "edge", "set": {"poison.manipulation": "edge", "poison.nodes": 3}}, r"poison\.nodes: nothing"),
        ({"set": {"poison.manipulation": "edge"}}, "manipulates: edges, not nodes"),
        ({"forget_kind": "feature", "set": {"poison.manipulation": "label"}}, "manipulates: nodes, not features"),
        ({"set": {"poison.known": 0}}, "out of range"),
        ({"set": {"poison.known": 25}}, "out of range"),
        ({"set": {"poison.known": "half"}}, "not a number"),
    ],
)
def test_settings_that_do_not_fit_are_told(values: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make_config({"methods": "sisa", "protocol": "poison", **values})


def test_settings_that_fit_are_taken() -> None:
    given = {"methods": "noop", "protocol": "poison", "forget_kind": "edge"}
    config = make_config({**given, "set": {"poison.manipulation": "edge", "poison.known": "0.25"}})
    assert config.poison() == Poison(edges=1000, manipulation="edge", known=0.25)


@pytest.mark.parametrize("manipulation", ["label", "edge"])
def test_a_record_tells_affected_classes_from_the_rest(manipulation: str) -> None:
    kind = "edge" if manipulation == "edge" else "node"
    poison = Poison(20, 20, manipulation, 0.5)  # type: ignore[arg-type]
    rules = Protocol("poison", forget=Forget(kind=kind), poison=poison)  # type: ignore[arg-type]
    whole = replace(rules, poison=replace(poison, known=1.0))
    results = {
        name: run_cell(replace(cell(method), protocol=one), GRAPH, surroundings())
        for name, method, one in (("part", "retrain", rules), ("all", "retrain", whole), ("noop", "noop", rules))
    }
    made = replace(cell("retrain"), protocol=rules)
    data = protocol.repetition_data(rules, GRAPH, made.seed, made.dataset_identity, made.repetition)
    labels = GRAPH.y[GRAPH.positions(data.split.test)]
    assert data.affected is not None
    inside = (labels == data.affected[0]) | (labels == data.affected[1])
    for record, arrays, _ in results.values():
        assert record.status == "ok", record.notes
        for moment in ("before", "after", "clean", "fresh"):
            right = torch.from_numpy(arrays[f"{moment}/test/full"]).argmax(dim=1) == labels
            for name, nodes in (("affected", inside), ("remaining", ~inside)):
                expected = float(right[nodes].double().mean())
                assert record.metrics[f"accuracy_{name}"]["full"][moment] == pytest.approx(expected)
    scores = {name: record.metrics["accuracy_affected"]["full"] for name, (record, _, _) in results.items()}
    # To know all and to train anew is the oracle; to do nothing leaves every weight.
    assert scores["all"]["after"] == scores["all"]["clean"] == scores["part"]["clean"]
    assert results["noop"][0].digests["unchanged"]
