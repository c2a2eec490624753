"""Questions to a method that was not told of a request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from unlearnbench.graph import Graph
from unlearnbench.task import Query


class Untold(Query):
    """A question over the graph that is left, to a method that still holds what has left it: that is not refused."""

    def context(self, train_ids: Tensor) -> Graph:
        """Cut the graph as `Query` does, of those of `train_ids` that are left."""
        return super().context(train_ids[torch.isin(train_ids, self.retained)])

    def contexts(self, train_ids: Tensor, group: Tensor, wanted: Sequence[int]) -> Iterator[Graph]:
        """Cut the graphs as `Query` does, of those of `train_ids` that are left."""
        left = torch.isin(train_ids, self.retained)
        return super().contexts(train_ids[left], group[left], wanted)
