"""Training of S networks in lockstep, for stacked models and plain modules alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.optim.adam import adam

from unlearnbench.errors import RefusedError, UsageError
from unlearnbench.gnn.dropout import Noise
from unlearnbench.gnn.layout import Layout, Ragged
from unlearnbench.gnn.models import Model, Stack, StackedModel
from unlearnbench.gnn.networks import Networks
from unlearnbench.gnn.plain_module import OneRowError, PlainStack
from unlearnbench.gnn.sampling import NeighbourSampler
from unlearnbench.gnn.trained import training_key
from unlearnbench.graph import Graph
from unlearnbench.task import Task, Training
from unlearnbench.task.training import AfterEpoch


class _Followed:
    """The mean loss of each network over an epoch, reported as the epoch ends.

    Args:
        stack: The networks in training.
        steps: How many steps an epoch has.
        report: What to call; it may evaluate the networks, which changes no bit of the training.
    """

    def __init__(self, stack: Stack, steps: int, report: AfterEpoch) -> None:
        self._stack, self._steps, self._report = stack, steps, report
        self._sums: Tensor | None = None
        self._nodes: list[int] = []
        self._taken = 0

    def step(self, losses: Tensor, counts: Sequence[int]) -> None:
        """Add a step: `losses` are those of the networks' nodes one after the other, `counts` how many each has."""
        sums = torch.stack([part.sum() for part in losses.split(list(counts))])
        self._sums = sums if self._sums is None else self._sums + sums
        self._nodes = [a + b for a, b in zip(self._nodes or [0] * len(counts), counts, strict=True)]
        self._taken += 1
        if self._taken % self._steps:
            return
        means = self._sums.cpu() / torch.tensor(self._nodes)
        self._sums, self._nodes = None, []
        devices = [losses.device] if losses.is_cuda else []
        with torch.random.fork_rng(devices):
            self._report(means)
        self._stack.train()


def train(
    stack: Stack,
    layout: Layout,
    labels: Tensor,
    training: Training,
    epochs: Iterable[int],
    followed: _Followed | None = None,
) -> None:
    """Train in place: Adam on the sum of the networks' mean cross-entropies over the nodes with a label.

    The gradient of the sum is, for each network, that of its own mean: no parameter of one
    network depends on data of another.
    """
    descent = _Descent(stack, training)
    labelled = labels >= 0
    sizes = [graph.num_nodes for graph in layout.graphs()]
    counted = None if bool(labelled.all()) else torch.nonzero(labelled)[:, 0]
    if counted is not None:
        sizes = [int(part.sum()) for part in labelled.split(sizes)]
        labels = labels[counted]
    share = _shares(sizes, labels.device)
    for epoch in epochs:
        if layout.noise is not None:
            layout.noise.step = epoch
        rows = stack.head(stack.embed(layout), layout)
        losses = descent.step(rows if counted is None else rows[counted], labels, share)
        if followed is not None:
            followed.step(losses, sizes)
    stack.eval()


def train_on_batches(
    stack: Stack,
    batches: Iterable[Sequence[tuple[Graph, int]]],
    noise: Noise,
    training: Training,
    followed: _Followed | None = None,
) -> int:
    """Train in place as `train` does, each step on a batch of each network.

    Args:
        stack: The networks, newly initialised.
        batches: For each step the subgraph of each network and how many of its first nodes count in the loss;
            the others only pass messages.
        noise: Source of dropout.
        training: Learning rate and weight decay.
        followed: Takes the losses of each step.

    Returns:
        The number of nodes of all subgraphs.
    """
    descent, rows = _Descent(stack, training), 0
    for noise.step, batch in enumerate(batches):
        layout = Ragged([graph for graph, _ in batch], noise)
        starts = accumulate(layout.sizes, initial=0)
        counted = [torch.arange(count) + start for (_, count), start in zip(batch, starts, strict=False)]
        # A head passes no messages: it is needed only for the nodes that count.
        seeds = [graph.nodes_alone(torch.arange(count)) for graph, count in batch]
        # A PyG layer that caches the first adjacency it sees would keep that of another batch.
        fresh = stack.fresh().train()
        embedded = fresh.embed(layout)[torch.cat(counted).to(noise.device)]
        labels = torch.cat([graph.y for graph in seeds])
        sizes = [count for _, count in batch]
        losses = descent.step(fresh.head(embedded, Ragged(seeds, noise)), labels, _shares(sizes, noise.device))
        if followed is not None:
            followed.step(losses, sizes)
        rows += layout.num_rows
    stack.eval()
    return rows


ADAM: Mapping[str, Any] = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "amsgrad": False, "maximize": False}
"""The defaults of `torch.optim.Adam`."""


class _Descent:
    """Adam on a stack in training.

    The function of torch, not its class `Adam`: making one of those imports torch's compiler, which takes a second.
    """

    def __init__(self, stack: Stack, training: Training) -> None:
        self._num_classes = stack.train().num_classes
        self._parameters = [parameter for parameter in stack.parameters() if parameter.requires_grad]
        self._settings = {**ADAM, "lr": training.lr, "weight_decay": training.weight_decay}
        self._means = [torch.zeros_like(parameter) for parameter in self._parameters]
        self._squares = [torch.zeros_like(parameter) for parameter in self._parameters]
        self._taken = [torch.zeros((), device=parameter.device) for parameter in self._parameters]

    def step(self, rows: Tensor, labels: Tensor, share: Tensor) -> Tensor:
        """Take one step and return the loss of each row: `rows` are logits, `share` are their weights in the loss."""
        losses = functional.cross_entropy(rows[:, : self._num_classes], labels, reduction="none")
        # The gradients are computed, not accumulated: the first layer's is written to the same buffer
        # in every step, and accumulating would copy it.
        gradients = torch.autograd.grad((losses * share).sum(), self._parameters, allow_unused=True)
        state = (self._parameters, gradients, self._means, self._squares, self._taken)
        reached = [values for values in zip(*state, strict=True) if values[1] is not None]
        parameters, found, means, squares, taken = map(list, zip(*reached, strict=True))
        laid_out = list(map(_laid_out, found, parameters))
        with torch.no_grad():
            adam(parameters, laid_out, means, squares, [], taken, fused=True, **self._settings)
        return losses.detach()


def _shares(counts: Sequence[int], device: torch.device) -> Tensor:
    return torch.cat([torch.full((count,), 1 / count, device=device) for count in counts])


def _laid_out(gradient: Tensor, parameter: Tensor) -> Tensor:
    # Fused Adam assumes that a gradient has its parameter's memory layout: on a CPU it would silently
    # read a transposed one (einsum in a plugin's module may return it) in the wrong order.
    if gradient.stride() == parameter.stride():
        return gradient
    return torch.empty_like(parameter).copy_(gradient)


def blank_networks(task: Task, num_networks: int) -> Networks:
    """Return S networks of the task's model with all parameters zero."""
    return _blank(task, task.graph, num_networks)


def _blank(task: Task, graph: Graph, num_networks: int) -> Networks:
    make = _maker(task, graph)
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
    """Train one network on each graph in lockstep, from scratch or from the parameters in `start`.

    Network `names[i]` depends only on its graph, its start, the task's seed, its name, the role
    and the step: on a CPU it has the same bits whatever networks are trained with it. The
    optimiser is reset at every call.

    Args:
        task: Model, training and seed.
        graphs: One per network, each with at least one labelled node; nodes with the label -1 pass messages and
            do not count in the loss.
        names: The networks' numbers, which determine their initial weights and dropout.
        role: What the networks are for; different roles draw different random numbers.
        start: By a network's number, the parameters it starts from, as `Networks.state` returns them;
            the other networks are drawn.
        step: Number of this training in a sequence; different steps draw different dropout.
    """
    start = start or {}
    # On CUDA the bits of a network depend on those trained with it.
    if task.trained is None or task.device.type == "cuda":
        return _train_all(task, graphs, names, role, start, step)
    keys = [training_key(task, *one, role, start, step) for one in zip(graphs, names, strict=True)]
    missing = [place for place, key in enumerate(keys) if key not in task.trained]
    if missing:
        chosen = [graphs[place] for place in missing], [names[place] for place in missing]
        networks = _train_all(task, *chosen, role, start, step)
        task.trained.update({keys[place]: networks.state(at) for at, place in enumerate(missing)})
        if len(missing) == len(graphs):
            return networks
    networks = _blank(task, graphs[0], len(graphs))
    for place, key in enumerate(keys):
        networks.put(place, task.trained[key])
    return networks


def _train_all(
    task: Task,
    graphs: Sequence[Graph],
    names: Sequence[int],
    role: str,
    start: Mapping[int, Mapping[str, Tensor]],
    step: int,
) -> Networks:
    groups = _groups(task.training, graphs)
    if len(groups) == 1:
        return _train_lockstep(task, graphs, names, role, start, step)
    networks = _blank(task, graphs[0], len(graphs))
    for places in groups:
        phase = task.phase(f"{role}-{names[places[0]]:03d}") if task.training.one_by_one else nullcontext()
        chosen = [graphs[place] for place in places], [names[place] for place in places]
        with phase:
            networks.replace(places, _train_lockstep(task, *chosen, role, start, step))
    return networks


def _groups(training: Training, graphs: Sequence[Graph]) -> list[list[int]]:
    """Group networks that are trained together: those with the same number of steps per epoch."""
    if training.one_by_one:
        return [[place] for place in range(len(graphs))]
    groups: dict[int, list[int]] = {}
    for place, graph in enumerate(graphs):
        groups.setdefault(_steps_an_epoch(training, graph), []).append(place)
    return list(groups.values())


def _steps_an_epoch(training: Training, graph: Graph) -> int:
    return -(-int((graph.y >= 0).sum()) // training.batch_size) if training.batch_size else 1


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
    # The role of the first step's stream has no step in it.
    of_step = (step,) if step else ()
    noise = Noise([task.key(role, "dropout", name, *of_step) for name in names], task.device)
    epochs, steps_an_epoch = task.epochs(task.training.epochs), _steps_an_epoch(task.training, graphs[0])
    report = task.listener.follow(role, step, names, partial(_answer, networks, graphs[0].num_features))
    followed = None if report is None else _Followed(stack, steps_an_epoch, report)
    try:
        if task.training.batch_size:
            generators = [task.generator(role, "batches", name, *of_step) for name in names]
            batches = _batches(task.training, graphs, generators, epochs)
            task.count(batch_nodes=train_on_batches(stack, batches, noise, task.training, followed))
        else:
            labels = torch.cat([graph.y for graph in graphs])
            train(stack, Ragged(graphs, noise), labels, task.training, epochs, followed)
    except OneRowError as error:
        name, nodes = names[error.network], graphs[error.network].num_nodes
        what = f"Shard {name} has {nodes} training {'node' if nodes == 1 else 'nodes'}"
        raise RefusedError(
            f"{what if role == 'member' else f'Network {name} ({role})'}: {task.model.label} normalises over a batch,"
            " and a batch of one node cannot be normalised.",
            "Use fewer shards (`num_shards`), a partitioner with balanced shards, another `batch_size`, or a model"
            " without batch normalisation.",
        ) from None
    nodes = sum(graph.num_nodes for graph in graphs)
    task.count(steps=task.training.epochs * steps_an_epoch, node_epochs=nodes * task.training.epochs)
    return Networks(make, stack.fresh(), len(graphs))


def _answer(networks: Networks, num_features: int, graph: Graph, at: Tensor) -> Tensor | None:
    return networks.predict_shared(graph, at)[1] if graph.num_features == num_features else None


def _batches(
    training: Training, graphs: Sequence[Graph], generators: Sequence[torch.Generator], epochs: Iterable[int]
) -> Iterator[tuple[tuple[Graph, int], ...]]:
    """Yield a batch of each graph per step; all graphs have as many batches, and each its own random generator."""
    samplers = [NeighbourSampler(graph) for graph in graphs]
    for _ in epochs:
        passes = (
            sampler.batches(training.batch_size, training.fanouts, generator)
            for sampler, generator in zip(samplers, generators, strict=True)
        )
        yield from zip(*passes, strict=True)


def _maker(task: Task, graph: Graph) -> Callable[[int], Stack]:
    # The closure must not refer to the task: networks outlive it, and its graph may be forgotten.
    spec, device = task.model, task.device
    num_features, num_classes = graph.num_features, graph.num_classes
    model = spec.build()
    if not getattr(model, "supports_edge_weight", False) and graph.edge_weight is not None:
        raise RefusedError(f"The model {spec.name!r} takes no edge weights, and the graph has some.", "Use another.")
    if isinstance(model, StackedModel):
        return lambda num_networks: model.stack(num_networks, num_features, num_classes).to(device)
    if isinstance(model, Model):

        def build(generator: torch.Generator) -> torch.nn.Module:
            return model.build(num_features, num_classes, generator)

        return lambda num_networks: PlainStack(build, num_networks, num_classes).to(device)
    raise UsageError(f"The model {spec.name!r} is neither a Model nor a StackedModel.", "Subclass one of them.")
