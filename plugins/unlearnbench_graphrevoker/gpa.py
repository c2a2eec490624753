"""Graph property-aware sharding: a partition learned by a network (Zhang et al., WWW 2024, section 4.1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from unlearnbench import ComponentParams, Graph, Partitioner, Task, later, train_networks
from unlearnbench.gnn import NeighbourSampler
from unlearnbench.unlearning import SLACK, assign_by_nodes, shard_bounds
from unlearnbench_graphrevoker import losses
from unlearnbench_graphrevoker.assignment import assign_released, fill_empty, paper_capacity
from unlearnbench_graphrevoker.network import Inputs, PartitionNetwork, assignment_in_chunks, prepare_inputs


class GraphPropertyAware(Partitioner):
    """Trains a network for a short expected retraining time, few cut edges and diverse labels in every shard.

    The network sees the training graph alone. All nodes are one batch, so that degrees are those of
    the graph, unless `batch_nodes` is set. With edge weights the losses count the weight of edges, and the network
    averages by it. The rule `balance` turns probabilities into shards.
    """

    name = "gpa"
    version = 1
    summary = "Shards from a network trained on expected retraining time, edge cut and label entropy."
    reference = "Zhang et al., GraphRevoker, WWW 2024, section 4.1 and the appendix on the partition loss"

    class Params(ComponentParams):
        """Parameters of the partition; the README of the plugin names the erratum behind each choice."""

        features: Literal["raw", "posterior", "embedding"] = Field(
            "raw",
            description="What the network sees: features, or log-posteriors or embeddings of a base model trained on"
            " the whole training graph.",
        )
        hidden: int = Field(256, ge=1, description="Width of the three hidden layers.")
        epochs: int = Field(30, ge=0, description="Passes over all nodes: one step each, unless there are batches.")
        batch_nodes: int = later(
            0,
            ge=0,
            description="Nodes of a step, in an order drawn anew for each epoch; the losses are those of the subgraph"
            " that they and their sampled neighbours induce. 0: the whole graph in one step.",
        )
        fanouts: str = later(
            "10,7",
            pattern=r"^[1-9][0-9]*(,[1-9][0-9]*)*$",
            description="With batches: how many neighbours of a node are sampled at most, for each hop.",
        )
        lr: float = Field(1e-3, gt=0, description="Learning rate of AdamW.")
        weight_decay: float = Field(1e-5, ge=0, description="Weight decay of AdamW.")
        clip: float = Field(0.5, ge=0, description="Largest norm of the gradient; 0: no limit.")
        temperature: float = Field(1.0, gt=0, description="Divides the outputs before the softmax over shards.")
        mix: float = Field(0.0, ge=0, lt=1, description="Share of the uniform distribution in the probabilities.")
        struct_weight: float = Field(1.0, ge=0, description="Weight of the normalised edge cut.")
        time_weight: float = Field(5.0, ge=0, description="Weight of the expected retraining time.")
        sem_weight: float = Field(10.0, ge=0, description="Weight of the label entropy.")
        time_form: losses.TimeForm = Field(
            "normalised",
            description="Expected time in [0, 1], the paper's (multiplied by the number of edges), or the cube root of"
            " the released code.",
        )
        sem_sign: losses.SemanticSign = Field(
            "intended",
            description="Reward diverse labels (the text's intention), or pure shards (the paper's formula).",
        )
        sem_form: losses.SemanticForm = Field(
            "mean", description="Mean over shards, or the sum over shards divided by the number of classes."
        )
        balance: Literal["confidence", "released", "none"] = Field(
            "confidence",
            description="Nodes in order of confidence, each to its best shard with room; the released code's rule; or"
            " the most probable shard whatever its size.",
        )
        capacity: Literal["slack", "paper"] = Field(
            "slack",
            description="Limits for balance=confidence: two-sided, from slack; or one-sided, n/S + delta (n - n/S).",
        )
        slack: float = Field(SLACK, ge=0, le=1, description="Shards hold (1 +- slack) n/S nodes, for capacity=slack.")
        delta: float = Field(
            0.005, ge=0, description="Room beyond the mean, for capacity=paper and for balance=released."
        )

    def __init__(self, params: Params | None = None) -> None:
        super().__init__(params)
        self.params: GraphPropertyAware.Params

    def partition(self, task: Task, num_shards: int) -> Tensor:
        """Train the network and assign: int64 [task.graph.num_nodes], every shard non-empty."""
        return self.assign(self.probabilities(task, num_shards))

    def probabilities(self, task: Task, num_shards: int) -> Tensor:
        """Train the network and return its P: float32 [task.graph.num_nodes, S]."""
        params, graph = self.params, task.graph
        x = self.features(task)
        network = PartitionNetwork(
            x.shape[1], params.hidden, num_shards, task.generator("gpa", "weights"), params.temperature, params.mix
        ).to(graph.x.device)
        optimiser = torch.optim.AdamW(network.parameters(), lr=params.lr, weight_decay=params.weight_decay, fused=True)

        def step(inputs: Inputs, objective: Objective) -> None:
            optimiser.zero_grad()
            objective(network(inputs)).backward()
            if params.clip:
                torch.nn.utils.clip_grad_norm_(network.parameters(), params.clip)
            optimiser.step()

        if params.batch_nodes:
            rest = (graph.y, graph.edge_index, graph.ids, graph.num_classes)
            seen = graph if x is graph.x else Graph(x, *rest, edge_weight=graph.edge_weight)
            for batch in self._batches(task, seen):
                inputs = prepare_inputs(batch.x, batch.edge_index, params.hidden, batch.edge_weight)
                step(inputs, Objective(batch, params))
            return assignment_in_chunks(network, x, graph.edge_index, edge_weight=graph.edge_weight)
        inputs = prepare_inputs(x, graph.edge_index, params.hidden, graph.edge_weight)
        objective = Objective(graph, params)
        for _ in task.epochs(params.epochs):
            step(inputs, objective)
        with torch.no_grad():
            assignment: Tensor = network(inputs)
        return assignment

    def _batches(self, task: Task, graph: Graph) -> Iterator[Graph]:
        """Yield the sampled subgraph of every step of every epoch."""
        if not self.params.epochs:
            return
        fanouts = [int(number) for number in self.params.fanouts.split(",")]
        sampler, rng = NeighbourSampler(graph), task.generator("gpa", "batches")
        for _ in task.epochs(self.params.epochs):
            for batch, _ in sampler.batches(self.params.batch_nodes, fanouts, rng):
                yield batch

    def features(self, task: Task) -> Tensor:
        """Return the input features of the network: float32 [task.graph.num_nodes, ...]."""
        return task.graph.x if self.params.features == "raw" else _of_base_model(task, self.params.features)

    def assign(self, assignment: Tensor) -> Tensor:
        """Turn P into shards by the rule of `balance`.

        Args:
            assignment: float [n, S].

        Returns:
            int64 [n], every shard non-empty: a shard that a rule leaves empty gets the least
            confident node of the others.
        """
        params = self.params
        n, num_shards = assignment.shape
        if params.balance == "none":
            return fill_empty(assignment.argmax(dim=1), assignment)
        if params.balance == "released":
            return fill_empty(assign_released(assignment, params.delta), assignment)
        low, high = 1, paper_capacity(n, num_shards, params.delta)
        if params.capacity == "slack":
            low, high = shard_bounds(n, num_shards, params.slack)
        return assign_by_nodes(-assignment, low, high)


class Objective:
    """The weighted sum of the partition losses on one graph, as a function of P.

    Args:
        graph: The whole training graph, or the subgraph of a batch: degrees are those in it.
        params: Weights and forms of the losses.
    """

    def __init__(self, graph: Graph, params: GraphPropertyAware.Params) -> None:
        self.params = params
        self.num_nodes = graph.num_nodes
        self.num_classes = graph.num_classes
        self.adjacency = losses.adjacency_matrix(graph.edge_index, graph.num_nodes, edge_weight=graph.edge_weight)
        self.labels = losses.label_matrix(graph.y, graph.num_classes)
        self.out_degree = self.adjacency.t() @ torch.ones(graph.num_nodes, 1, device=graph.x.device)
        self.num_edges = float(self.out_degree.sum(dtype=torch.float64))

    def __call__(self, assignment: Tensor) -> Tensor:
        """Return the loss, a scalar; a loss of weight 0 is not computed.

        Args:
            assignment: float [N, S], P.
        """
        params = self.params
        # Differentiable even if every weight is 0.
        total = 0 * assignment.sum()
        if params.time_weight or params.struct_weight:
            edges = losses.expected_edges(assignment, self.adjacency)
        if params.time_weight:
            nodes = assignment.sum(dim=0)
            time = losses.time_loss(nodes, edges, self.num_nodes, self.num_edges, params.time_form)
            total = total + params.time_weight * time
        if params.struct_weight:
            volumes = losses.expected_volumes(assignment, self.out_degree.squeeze(1))
            total = total + params.struct_weight * losses.structure_loss(edges, volumes)
        if params.sem_weight:
            entropies = losses.label_entropies(assignment, self.labels)
            semantic = losses.semantic_loss(entropies, self.num_classes, params.sem_sign, params.sem_form)
            total = total + params.sem_weight * semantic
        return total


def _of_base_model(task: Task, features: str) -> Tensor:
    """Train the base model on the whole training graph and return its log-posteriors or embeddings."""
    networks = train_networks(task, [task.graph], [0], role="embedder")
    embeddings, logits = networks.predict([task.graph])[0]
    return embeddings if features == "embedding" else torch.log_softmax(logits, dim=-1)
