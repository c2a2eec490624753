"""How S networks come to be: drawn, and trained in groups that take the same steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext

import torch
from torch import Tensor

from unlearnbench.errors import UsageError
from unlearnbench.gnn.layout import Ragged
from unlearnbench.gnn.models import Model, Stack, StackedModel
from unlearnbench.gnn.networks import Networks
from unlearnbench.gnn.noise import Noise
from unlearnbench.gnn.sampling import NeighbourSampler
from unlearnbench.gnn.single import PlainStack
from unlearnbench.gnn.training import train, train_on_batches
from unlearnbench.graph import Graph
from unlearnbench.task import Task, Training


def blank_networks(task: Task, num_networks: int) -> Networks:
    """Make S networks of the task's model with all parameters zero."""
    make = _maker(task, task.graph)
    return Networks(make, make(num_networks), num_networks)


def train_networks(
    task: Task,
    graphs: Sequence[Graph],
    names: Sequence[int],
    role: str = "member",
    *,
    start: Mapping[int, Mapping[str, Tensor]] | None = None,
    step: int = 0,
) -> Networks:
    """Train one network on each graph in lockstep, from scratch unless `start` says from where.

    What network `names[i]` becomes depends on its graph, where it starts, the task's seed, its
    name, the role and the step alone: on a CPU it has the same bits whichever networks are trained
    beside it. The optimiser starts anew at every call.

    Args:
        task: Model, training and seed.
        graphs: One a network, each with at least one node.
        names: The networks' numbers, which choose their initial weights and dropout.
        role: What the networks are for; other roles draw other numbers.
        start: By a network's number, the parameters it starts from, as `Networks.state` gives them;
            those not in it are drawn.
        step: Which of several trainings one after the other this is; other steps draw other dropout.
    """
    start = start or {}
    groups = _groups(task.training, graphs)
    if len(groups) == 1:
        return _train_lockstep(task, graphs, names, role, start, step)
    make = _maker(task, graphs[0])
    whole = Networks(make, make(len(graphs)), len(graphs))
    for places in groups:
        phase = task.phase(f"{role}-{names[places[0]]:03d}") if task.training.one_by_one else nullcontext()
        chosen = [graphs[place] for place in places], [names[place] for place in places]
        with phase:
            whole.replace(places, _train_lockstep(task, *chosen, role, start, step))
    return whole


def _groups(training: Training, graphs: Sequence[Graph]) -> list[list[int]]:
    """Say which networks are trained together: those that take the same number of steps an epoch."""
    if training.one_by_one:
        return [[place] for place in range(len(graphs))]
    groups: dict[int, list[int]] = {}
    for place, graph in enumerate(graphs):
        groups.setdefault(_steps_an_epoch(training, graph), []).append(place)
    return list(groups.values())


def _steps_an_epoch(training: Training, graph: Graph) -> int:
    return -(-graph.num_nodes // training.batch_size) if training.batch_size else 1


def _train_lockstep(
    task: Task,
    graphs: Sequence[Graph],
    names: Sequence[int],
    role: str,
    start: Mapping[int, Mapping[str, Tensor]],
    step: int,
) -> Networks:
    make = _maker(task, graphs[0])
    stack = make(len(graphs))
    stack.draw([task.generator(role, "init", name) for name in names])
    stack.to(task.device)
    networks = Networks(make, stack, len(graphs))
    for place, name in enumerate(names):
        if name in start:
            networks.put(place, start[name])
    # The first step's stream is named as if there were no others.
    of_step = (step,) if step else ()
    noise = Noise([task.key(role, "dropout", name, *of_step) for name in names], task.device)
    epochs = task.epochs(task.training.epochs)
    if task.training.batch_size:
        generators = [task.generator(role, "batches", name, *of_step) for name in names]
        batches = _batches(task.training, graphs, generators, epochs)
        task.count(batch_nodes=train_on_batches(stack, batches, noise, task.training))
    else:
        train(stack, Ragged(graphs, noise), torch.cat([graph.y for graph in graphs]), task.training, epochs)
    nodes = sum(graph.num_nodes for graph in graphs)
    steps = task.training.epochs * _steps_an_epoch(task.training, graphs[0])
    task.count(steps=steps, node_epochs=nodes * task.training.epochs)
    return Networks(make, stack.fresh(), len(graphs))


def _batches(
    training: Training, graphs: Sequence[Graph], generators: Sequence[torch.Generator], epochs: Iterable[int]
) -> Iterator[tuple[tuple[Graph, int], ...]]:
    """Sample a batch of each graph, step by step; graphs have the same number of batches, and each its own chance."""
    samplers = [NeighbourSampler(graph) for graph in graphs]
    for _ in epochs:
        passes = (
            sampler.batches(training.batch_size, training.fanouts, generator)
            for sampler, generator in zip(samplers, generators, strict=True)
        )
        yield from zip(*passes, strict=True)


def _maker(task: Task, graph: Graph) -> Callable[[int], Stack]:
    # The closure must not reach the task: networks outlive it, and its graph may be forgotten.
    spec, device = task.model, task.device
    num_features, num_classes = graph.num_features, graph.num_classes
    model = spec.build()
    if isinstance(model, StackedModel):
        return lambda num_networks: model.stack(num_networks, num_features, num_classes).to(device)
    if isinstance(model, Model):

        def build(generator: torch.Generator) -> torch.nn.Module:
            return model.build(num_features, num_classes, generator)

        return lambda num_networks: PlainStack(build, num_networks, num_classes).to(device)
    raise UsageError(f"The model {spec.name!r} is neither a Model nor a StackedModel.", "Subclass one of them.")
