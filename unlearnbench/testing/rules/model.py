"""The rules of base models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from unlearnbench.gnn import Networks, train_networks
from unlearnbench.task import Task
from unlearnbench.testing.graphs import TOYS, Toy, toy_task
from unlearnbench.testing.rules.base import EPOCHS, TOLERANCE, Case, Fault, Rule
from unlearnbench.testing.rules.purity import describe, difference, reproducible, unchanged_graph


def _task(case: Case, toy: Toy) -> Task:
    return replace(toy_task(toy.graph, epochs=EPOCHS, catalogue=case.catalogue), model=case.spec)


def _trained(case: Case, toy: Toy, task: Task | None = None) -> Networks:
    task = task or _task(case, toy)
    return train_networks(task, [task.graph], [0])


def _answers(case: Case, toy: Toy) -> Iterator[Fault]:
    networks = _trained(case, toy)
    n, num_classes = len(toy.train), toy.whole.num_classes
    ((embeddings, logits),) = networks.predict([toy.graph])
    if logits.shape != (n, num_classes):
        yield Fault(
            f"head() gave {describe(logits)}, expected float [{n}, {num_classes}].",
            "Return a column per class: num_classes.",
        )
    if embeddings.dim() != 2 or len(embeddings) != n:
        yield Fault(f"embed() gave {describe(embeddings)}, expected float [{n}, d].", "Return a row per node.")
    for name, value in (("embed()", embeddings), ("head()", logits), *networks.state(0).items()):
        if not bool(torch.isfinite(value).all()):
            yield Fault(
                f"{name} is not finite after training.", "Do not divide by a degree or a deviation that can be 0."
            )
    if not networks.state(0):
        yield Fault("It has no parameters.", "Keep them in nn.Parameter or in layers that do.")


def _bears_one_node_shards(case: Case, toy: Toy) -> Iterator[Fault]:
    task = _task(case, toy)
    graphs = [task.graph.induced(task.graph.ids[at : at + 1]) for at in range(3)]
    networks = train_networks(task, graphs, range(3))
    values = [value for network in range(3) for value in networks.state(network).values()]
    if not all(bool(torch.isfinite(value).all()) for value in values):
        yield Fault(
            "Trained on a single node its parameters are not finite.",
            "Statistics over one row (batch normalisation) divide by 0: use layer normalisation.",
        )


def _stands_alone(case: Case, toy: Toy) -> Iterator[Fault]:
    """The result of training does not depend on networks trained at the same time: bit for bit on a CPU."""
    task = _task(case, toy)
    ids = task.graph.ids
    parts = [task.graph.induced(part) for part in (ids[:9], ids[9:13], ids[13:])]
    together = train_networks(task, parts, [0, 1, 2])
    for place, part in enumerate(parts):
        alone = train_networks(task, [part], [place])
        if differs := difference(together.state(place), alone.state(0)):
            yield Fault(
                f"A network trained together with others differs from the same one trained alone: {differs}.",
                "Let no parameter of one network meet rows of another; see docs/performance.md for bits.",
            )
            return


def _is_for_any_graph(case: Case, toy: Toy) -> Iterator[Fault]:
    networks = _trained(case, toy)
    before = networks.state(0)
    graph = toy.whole.without_labels()
    first, again = (networks.predict([graph])[0][1] for _ in range(2))
    if not torch.equal(first, again):
        yield Fault(
            "Two predictions for the same graph differ.", "Use dropout and other randomness in training mode alone."
        )
    order = torch.arange(graph.num_nodes - 1, -1, -1)
    turned = networks.predict([graph.induced(graph.ids[order])])[0][1]
    if turned.shape == first.shape and not torch.allclose(first[order], turned, atol=TOLERANCE):
        yield Fault(
            "Nodes in another order get other predictions.",
            "Use edge_index of the call alone; keep nothing of an earlier graph.",
        )
    if differs := difference(before, networks.state(0)):
        yield Fault(f"Predicting changed parameters or statistics: {differs}.", "Change them in training mode alone.")
    _, shared = networks.predict_shared(graph, torch.arange(graph.num_nodes))
    if shared.shape[1:] == first.shape and not torch.allclose(shared[0], first, atol=TOLERANCE):
        yield Fault(
            "On one graph shared by all networks its predictions differ.",
            "Use the layout's methods, no shape of your own.",
        )


def _can_be_differentiated(case: Case, toy: Toy) -> Iterator[Fault]:
    networks = _trained(case, toy)
    ((_, logits),) = networks.answers([toy.graph])
    gradients = torch.autograd.grad(logits.square().sum(), networks.parameters(), allow_unused=True)
    if all(gradient is None or not bool(gradient.any()) for gradient in gradients):
        yield Fault("No parameter has a gradient.", "Do not detach() between the parameters and the logits.")


def _uses_weights(case: Case, toy: Toy) -> Iterator[Fault]:
    if not case.spec.cls.supports_edge_weight:
        return
    networks, graph = _trained(case, toy), toy.graph
    ones = torch.ones(graph.num_edges)
    # The same in both directions.
    others = 1 + graph.edge_index.sum(dim=0).remainder(3).to(torch.float32)
    seen = (graph, replace(graph, edge_weight=ones), replace(graph, edge_weight=others))
    plain, of_ones, of_others = (networks.predict([each])[0][1] for each in seen)
    ((_, without),) = networks.predict([graph.only_edges(torch.zeros_like(ones, dtype=torch.bool))])
    if not torch.allclose(plain, of_ones, atol=TOLERANCE):
        yield Fault("Weights of 1 give other predictions than no weights.", "Let an edge without a weight count 1.")
    if torch.allclose(plain, of_others, atol=TOLERANCE) and not torch.allclose(plain, without, atol=TOLERANCE):
        yield Fault(
            "It says supports_edge_weight = True, but other weights give the same predictions.",
            "Pass edge_weight on to the layers, or say False: then graphs with weights are refused.",
        )


def _outputs(case: Case, toy: Toy) -> dict[str, Tensor]:
    networks = _trained(case, toy)
    return networks.state(0) | {"the answer": networks.predict([toy.graph])[0][1]}


def _train_and_predict(case: Case, toy: Toy, task: Task) -> None:
    _trained(case, toy, task).predict([task.graph])


RULES = (
    Rule("answers", "embed() returns a row per node, head() a column per class, both finite", _answers, TOYS),
    Rule("one-node-shards", "it can be trained on a single node", _bears_one_node_shards),
    *reproducible(
        "the same task gives the same parameters",
        _outputs,
        difference,
        "Two trainings of the same task differ: {}.",
        "Draw from the generator handed in or from torch's global one, which the harness sets; from no other.",
        own_promise="random generators other than those handed in are left alone",
    ),
    unchanged_graph("the graph stays as it was", _task, _train_and_predict, "embed() or head()"),
    Rule("stands-alone", "a network does not depend on those trained beside it", _stands_alone),
    Rule("any-graph", "it predicts on any graph, in any order of nodes, and remembers none", _is_for_any_graph),
    Rule("edge-weights", "where it says that it takes edge weights, it uses them", _uses_weights),
    Rule("gradients", "its outputs can be differentiated by its parameters", _can_be_differentiated),
)
