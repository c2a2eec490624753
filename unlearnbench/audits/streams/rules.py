"""The rules by which the requests of a stream are chosen."""

from __future__ import annotations

import torch
from torch import Tensor

from unlearnbench.audits.subject import Subject
from unlearnbench.protocol.requests import rounded_half_up

RANDOM, ADAPTIVE, ONE_SHARD, GROWING = "random", "adaptive", "one shard", "growing"
SIDE = "streams"


def parts(ids: Tensor, requests: int) -> list[Tensor]:
    """Split ids into requests of equal size, in their order; fewer where there are not enough."""
    return [part.sort().values for part in ids.tensor_split(requests) if len(part)]


def shuffled(subject: Subject, ids: Tensor, role: str) -> Tensor:
    """Return ids in a random order that does not depend on the method."""
    order = torch.randperm(len(ids), generator=subject.task(side=SIDE).generator(role))
    return ids[order.to(ids.device)]


def growing(subject: Subject, share: float) -> Tensor:
    """Return the nodes of D, then others at random, up to a share of all nodes or half of the training nodes."""
    first, train = shuffled(subject, subject.request.ids, RANDOM), subject.train_graph.ids
    others = shuffled(subject, train[~torch.isin(train, first)], GROWING)
    most = min(rounded_half_up(share, subject.graph.num_nodes), len(train) // 2)
    return torch.cat([first, others[: max(0, most - len(first))]])


def one_shard(subject: Subject, partition: Tensor) -> Tensor:
    """Return as many nodes of the largest shard as D has, at random, or all of them if there are no more.

    Args:
        subject: The cell.
        partition: int64 [n, 2], node ids and shards.
    """
    ids, shard = partition.unbind(dim=1)
    inside = ids[shard == torch.bincount(shard).argmax()].sort().values
    return shuffled(subject, inside, ONE_SHARD)[: len(subject.request.ids)]


def most_confident(ids: Tensor, published: Tensor, count: int) -> Tensor:
    """Choose the nodes whose predicted class has the highest probability; of equals, the lowest ids.

    Args:
        ids: int64 [n], the training nodes that are left.
        published: [n, C], the log-probabilities that the deployed model answers for them: all that the rule sees.
        count: How many.
    """
    ids, order = ids.sort()
    certainty = published[order].max(dim=1).values
    return ids[certainty.sort(descending=True, stable=True).indices[:count]].sort().values
