"""Weights of a user's edges: read as numbers of 32 bits, and kept where an edge gets its reverse."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from unlearnbench.errors import DataError
from unlearnbench.graph.edge_keys import pair_keys

# The option that uses weights, as messages name it.
OPTION = "weighted=true"


def edge_weights(found: Any, num_edges: int) -> Tensor:
    """Make the weight of each edge, float32 [E], of real numbers of any type, [E] or [E, 1].

    Raises:
        DataError: There are none, or they have another shape or type.
    """
    if found is None:
        raise DataError(
            f"there are no edge weights, and {OPTION} asks for them.",
            "Name them edge_weight, in edges.csv weight: data.edge_weight = data.edge_attr. Or leave the option out.",
        )
    weights: Tensor = found[:, 0] if found.dim() == 2 and found.shape[1] == 1 else found
    if weights.shape != (num_edges,):
        raise DataError(
            f"edge_weight has shape {list(found.shape)}, expected [{num_edges}].",
            "It holds one number for each column of edge_index, in the same order.",
        )
    if weights.is_complex() or weights.dtype == torch.bool:
        raise DataError(f"edge_weight is {found.dtype}.", "Weights are positive, finite numbers.")
    return weights.to(torch.float32)


def both_ways(edges: Tensor, weights: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
    """Add the reverse of every edge that lacks it, with the same weight, and drop duplicates.

    Args:
        edges: int64 [2, E], positions.
        weights: float32 [E].
        num_nodes: n.

    Raises:
        DataError: Duplicates, or the two directions, have different weights; names the first edge.
    """
    source, target = edges
    keys = torch.cat([pair_keys(source, target, num_nodes), pair_keys(target, source, num_nodes)]).numpy()
    distinct, first, group = np.unique(keys, return_index=True, return_inverse=True)
    doubled = torch.cat([weights, weights])
    kept = doubled[torch.from_numpy(first)]
    differ = torch.nonzero(kept[torch.from_numpy(group)] != doubled)[:, 0]
    if len(differ):
        at = int(differ[0])
        column = at % edges.shape[1]
        one, other = float(kept[int(group[at])]), float(doubled[at])
        raise DataError(
            f"the edge between {int(source[column])} and {int(target[column])} has the weights {one:g} and {other:g}.",
            "With undirected=true an edge that is there more than once has one weight: keep their sum or mean.",
        )
    both = torch.from_numpy(distinct)
    return torch.stack([both // num_nodes, both % num_nodes]), kept
