"""H4: test nodes keep their edges to the shard when members are asked about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
import torch
from command_line import command, install
from method_samples import SHARDED, fitted, setting

from unlearnbench.graph import Graph
from unlearnbench.protocol import protocol
from unlearnbench.task import Query, View, make_query
from unlearnbench.testing.graphs import toy_graph

__all__ = ["command", "install"]


@pytest.mark.parametrize("text", SHARDED)
def test_every_member_sees_test_nodes_with_the_edges_of_the_induced_subgraph(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, task, request = setting()
    method = fitted(text, task)
    seen: list[tuple[torch.Tensor, Graph]] = []
    contexts = Query.contexts

    def spy(self: Query, train_ids: torch.Tensor, group: torch.Tensor, wanted: Sequence[int]) -> Iterator[Graph]:
        for number, found in zip(wanted, contexts(self, train_ids, group, wanted), strict=True):
            seen.append((train_ids[group == number], found))
            yield found

    retained = task.without(request)
    for held in (task, retained):
        targets = graph.ids[torch.arange(150) % 10 == 9]
        query = make_query(graph, held.graph.ids, targets, View.SHARD, task.device)
        with monkeypatch.context() as patched:
            patched.setattr(Query, "contexts", spy)
            seen.clear()
            method.predict(query)
        assert torch.cat([ids for ids, _ in seen]).sort().values.tolist() == held.graph.ids.sort().values.tolist()
        total = 0
        for ids, given in seen:
            induced = graph.induced(torch.cat([ids, targets]))
            assert degrees(given, targets) == degrees(induced, targets)
            total += sum(degrees(given, targets))
        assert total / len(seen) / len(targets) > 0
        if held is task:
            method.unlearn(request, retained)


def degrees(graph: Graph, ids: torch.Tensor) -> list[int]:
    found: list[int] = torch.bincount(graph.edge_index[1], minlength=graph.num_nodes)[graph.positions(ids)].tolist()
    return found


def test_test_nodes_keep_their_edges_in_the_shard_view():
    graph = toy_graph(num_nodes=200, edges=900)
    parts = protocol.split(graph, 0, "toy", 0)
    seen = make_query(graph, parts.train, parts.test, View.SHARD, torch.device("cpu")).context(parts.train[:60])
    degree = torch.bincount(seen.edge_index[1], minlength=seen.num_nodes)[seen.positions(parts.test)]
    induced = graph.induced(torch.cat([parts.train[:60], parts.test]))
    expected = torch.bincount(induced.edge_index[1], minlength=induced.num_nodes)[induced.positions(parts.test)]
    assert float(degree.double().mean()) > 0
    assert torch.equal(degree, expected)
