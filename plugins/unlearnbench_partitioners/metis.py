"""METIS, with a repair step that keeps its shards within the limits."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from unlearnbench import ComponentParams, Partitioner, Task, seeds
from unlearnbench.unlearning import SLACK, neighbour_weights, neighbours, shard_bounds
from unlearnbench_partitioners.streaming import place, release

Scheme = Literal["kway", "recursive"]


class Metis(Partitioner):
    """Cuts as few edges as METIS can, or as little of their weight.

    It uses edges alone: a partition kept after a request still depends on the edges of forgotten
    nodes.
    """

    name = "metis"
    summary = "METIS: multilevel k-way partition of few cut edges."
    reference = (
        'Karypis and Kumar, "Multilevel k-way Partitioning Scheme for Irregular Graphs", Journal of Parallel and'
        " Distributed Computing 1998"
    )
    uses_data = True
    requires = {"pymetis": "unlearnbench[metis]"}

    class Params(ComponentParams):
        """Parameters of `metis`."""

        scheme: Scheme = Field(
            default="kway", description="Multilevel k-way partition, or multilevel recursive bisection."
        )
        slack: float = Field(
            default=SLACK,
            ge=0,
            lt=1,
            description="Tolerated imbalance: between (1 - slack) n/S and (1 + slack) n/S nodes in a shard.",
        )
        cuts: int = Field(
            default=1, ge=1, description="Partitions that METIS tries; the one of fewest cut edges stays."
        )

    params: Params

    def partition(self, task: Task, num_shards: int) -> Tensor:
        """Cut the graph of the training nodes; see `Partitioner.partition`."""
        settings = self.params
        n = task.graph.num_nodes
        low, high = shard_bounds(n, num_shards, settings.slack)
        starts, adjacent = (t.cpu() for t in neighbours(task.graph))
        found = neighbour_weights(task.graph)
        weights = None if found is None else found.cpu()
        # METIS takes seeds of 32 bits.
        seed = task.key("metis") % 2**31
        shard = cut(starts, adjacent, num_shards, settings.scheme, settings.slack, settings.cuts, seed, weights)
        free = release(starts, adjacent, shard, num_shards, low, high, weights)
        shard[free] = -1
        order = free[torch.sort(seeds.keyed_hash(task.graph.ids.cpu()[free], task.key("metis")), stable=True).indices]
        return place(order, starts, adjacent, shard, num_shards, low, high, weights).to(task.device)


def cut(
    starts: Tensor,
    adjacent: Tensor,
    num_shards: int,
    scheme: Scheme,
    slack: float,
    cuts: int,
    seed: int,
    weights: Tensor | None = None,
) -> Tensor:
    """Call METIS.

    Args:
        starts: int64 [n + 1], from `neighbours`.
        adjacent: int64 [m], from `neighbours`.
        num_shards: S.
        scheme: `kway` or `recursive`.
        slack: Tolerated excess of a shard over n/S, which METIS may exceed.
        cuts: Number of partitions to try.
        seed: In [0, 2^31).
        weights: int64 [m], from `neighbour_weights`: the weight of the cut counts instead of its edges.

    Returns:
        int64 [n]; a shard may be empty, or larger than allowed.
    """
    if num_shards == 1:
        return torch.zeros(len(starts) - 1, dtype=torch.int64)
    import pymetis

    kind = pymetis.zero_copy_dtype()
    result = pymetis.part_graph(
        num_shards,
        pymetis.CSRAdjacency(starts.numpy().astype(kind, copy=False), adjacent.numpy().astype(kind, copy=False)),
        eweights=None if weights is None else weights.numpy().astype(kind),
        recursive=scheme == "recursive",
        # METIS takes the tolerance in thousandths, at least one.
        options=pymetis.Options(ufactor=max(1, round(1000 * slack)), ncuts=cuts, seed=seed),
    )
    return torch.from_numpy(np.asarray(result.vertex_part, dtype=np.int64).copy())
