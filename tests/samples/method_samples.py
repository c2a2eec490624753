"""Methods of the sharded family, fitted on a graph in whose tensors every node can be told from the others."""

from dataclasses import replace

import pytest
import torch
from cell_samples import GRAPH, cell, surroundings

from unlearnbench.audits.exactness.reach import reachable_tensors
from unlearnbench.errors import RefusedError
from unlearnbench.graph import Graph
from unlearnbench.protocol import Request
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.running.runner import run_cell
from unlearnbench.task import View, make_query
from unlearnbench.testing.graphs import FIRST_ID, toy_graph, toy_task

CATALOGUE = load_catalogue()
METHODS = [
    "retrain",
    "sisa[num_shards=5]",
    "sisa[num_shards=5,partitioner=hash,aggregator=proportional]",
    "grapheraser[num_shards=5]",
    "grapheraser[num_shards=5,embedding=logits]",
    "graphrevoker[num_shards=5,aggregator.sample=60]",
    "sharded[num_shards=5,partitioner=hash,aggregator=contrastive[sample=60]]",
    "sisa[num_shards=5,slices=3]",
    "sisa[num_shards=5,slices=4,partitioner=hash,aggregator=contrastive[sample=60]]",
]
SHARDED = METHODS[1:]


def marked_graph():
    """A graph whose rows are unique constants, so that a hit is a hit; ids start at 10^9."""
    graph = toy_graph(num_nodes=150, num_features=8, edges=500, first_id=FIRST_ID)
    constants = 1 + torch.arange(150) / 1024
    x = torch.zeros(150, 8)
    x[torch.arange(150), graph.y] = constants
    return Graph(x, graph.y, graph.edge_index, graph.ids, 3)


def setting():
    graph = marked_graph()
    train = graph.ids[torch.arange(150) % 10 < 7]
    task = toy_task(graph.induced(train), epochs=6, catalogue=CATALOGUE)
    return graph, task, Request(train[[2, 30, 31, 77]])


def fitted(text, task):
    method = resolve(CATALOGUE, "unlearner", text).build()
    method.fit(task)
    return method


def answers(method, graph, retained):
    targets = graph.ids[torch.arange(150) % 10 == 9]
    query = make_query(graph, retained.graph.ids, targets, View.SHARD, retained.device)
    return [method.predict(replace(query, view=view)) for view in (View.SHARD, View.FULL)]


def same(a, b):
    assert a.keys() == b.keys()
    return [name for name in a if not torch.equal(a[name], b[name])]


def check_nothing_is_held(method, task, request):
    """Check that neither ids nor features of the request can be reached from the method."""
    constants = task.graph.induced(request.ids).x
    constants = constants[constants > 0].double()
    for tensor in reachable_tensors(method):
        assert not bool(torch.isin(tensor.double(), request.ids.double()).any())
        assert not bool(torch.isin(tensor.double(), constants).any())


def check_predictions_are_pure(method, graph, retained):
    """Check that predictions are float32 log-probabilities and change no state."""
    before = method.state()
    for answer in answers(method, graph, retained):
        assert answer.dtype is torch.float32
        torch.testing.assert_close(answer.exp().sum(dim=1), torch.ones(len(answer)))
    assert same(before, method.state()) == []


def check_any_model_but_sgc_is_refused(name):
    """Check that a linear method refuses other models before training, alone and as a cell."""
    with pytest.raises(RefusedError, match="no use for the model 'gcn'"):
        fitted(name, toy_task())
    record, _, _ = run_cell(cell(name), GRAPH, surroundings())
    assert record.status == "refused"
    assert "the model 'sgc'" in record.notes[0]
