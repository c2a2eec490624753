"""Methods of the sharded family, fitted on a graph in whose tensors every node can be told from the others."""

from dataclasses import replace

import torch

from unlearnbench.graph import Graph
from unlearnbench.protocol import Request
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
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
