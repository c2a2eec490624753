"""Graphs and drawn stacks that the tests of the models share."""

import torch

from unlearnbench.graph import Graph
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.testing.graphs import toy_graph

MODELS = ["gcn", "gat", "sage", "appnp", "jknet", "gin", "gatv2", "sgc", "mlp"]
NO_EDGES = torch.empty(2, 0, dtype=torch.int64)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def with_features(graph, density, width=40):
    keep = torch.rand(graph.num_nodes, width, generator=seeded(1)) < density
    x = keep * torch.rand(graph.num_nodes, width, generator=seeded(2))
    return Graph(x, graph.y, graph.edge_index, graph.ids, graph.num_classes)


def with_edges(graph, edge_index):
    return Graph(graph.x, graph.y, edge_index, graph.ids, graph.num_classes)


def odd_graphs():
    base = toy_graph(num_nodes=20)
    one = base.induced(base.ids[:1])
    return {
        "undirected": base,
        "loops, doubles, one-way edges, isolated nodes": with_edges(
            base, torch.tensor([[0, 0, 1, 1, 5, 5, 7, 7, 7, 9], [0, 0, 2, 2, 5, 1, 8, 8, 3, 9]])
        ),
        "no edges": with_edges(base, NO_EDGES),
        "one node": with_edges(one, NO_EDGES),
        "one node with two loops": with_edges(one, torch.zeros(2, 2, dtype=torch.int64)),
    }


def drawn_stack(model, count, features, classes=3, arguments=""):
    """Draw a stack; what starts at zero, the biases, is made random too."""
    name, _, given = model.partition("[")
    given = ",".join(part for part in (given.rstrip("]"), arguments) if part)
    spec = resolve(load_catalogue(), "model", f"{name}[{given}]" if given else name)
    stack = spec.build().stack(count, features, classes)
    stack.draw([seeded(network) for network in range(count)])
    for network in range(count):
        for name, view in stack.own(network).items():
            if not view.any():
                view.copy_(torch.randn(view.shape, generator=seeded(network + len(name))))
    return stack.eval()


def logits(stack, layout):
    return stack.head(stack.embed(layout), layout)


def shards(count, density=None):
    graph = toy_graph(num_nodes=13 * 20, edges=900)
    graph = graph if density is None else with_features(graph, density)
    sizes = torch.randint(1, 25, (20,), generator=seeded(3)).tolist()
    order = torch.randperm(graph.num_nodes, generator=seeded(4))
    return [graph.induced(graph.ids[part].sort().values) for part in order[: sum(sizes)].split(sizes)][:count]
