"""Drawing requests: uniformly from what may be forgotten, or what the user names."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from unlearnbench.errors import UsageError
from unlearnbench.graph import Graph
from unlearnbench.protocol.requests import ALL_COLUMNS, Forget, Kind, Request, joined


def draw(forget: Forget, train_ids: Tensor, num_nodes: int, generator: torch.Generator) -> Request:
    """Draw the nodes of `draw_stream` as one request."""
    return joined(draw_stream(forget, train_ids, num_nodes, generator))


def draw_edges(forget: Forget, train: Graph, num_pairs: int, generator: torch.Generator) -> Request:
    """Draw the edges of `draw_edge_stream` as one request."""
    return joined(draw_edge_stream(forget, train, num_pairs, generator))


def draw_features(
    forget: Forget, train_ids: Tensor, num_nodes: int, num_features: int, generator: torch.Generator
) -> Request:
    """Draw the features of `draw_feature_stream` as one request."""
    return joined(draw_feature_stream(forget, train_ids, num_nodes, num_features, generator))


def draw_stream(forget: Forget, train_ids: Tensor, num_nodes: int, generator: torch.Generator) -> list[Request]:
    """Draw the requests uniformly from the training nodes, or take the nodes named.

    The first request of a stream is that without a stream, and all of them together that of as many nodes at once.

    Args:
        forget: How much, or which.
        train_ids: int64 [m], ids of the training nodes.
        num_nodes: Nodes of the whole graph: what a ratio is a share of.
        generator: The random generator.

    Raises:
        UsageError: The request would be empty, would be larger than the training set, or names
            a node that is not a training node.
    """
    if forget.ids is not None:
        ids = torch.tensor(forget.ids, dtype=torch.int64)
        _check_known(ids, train_ids)
        _check_room(len(ids), len(train_ids), forget.kind)
        return [Request(ids.sort().values)]
    places = _places(forget, num_nodes, len(train_ids), generator)
    return [Request(train_ids[part].sort().values) for part in places]


def draw_edge_stream(forget: Forget, train: Graph, num_pairs: int, generator: torch.Generator) -> list[Request]:
    """Draw the requests uniformly from the adjacent pairs of training nodes, or take the pairs named.

    Args:
        forget: How much, or which.
        train: The subgraph of the training nodes.
        num_pairs: Pairs of the whole graph: what a ratio is a share of.
        generator: The random generator.

    Raises:
        UsageError: The request would be empty, there are fewer edges between training nodes, or it
            names one that does not join training nodes.
    """
    pairs = train.pairs()
    if forget.ids is not None:
        wanted = torch.tensor(forget.ids, dtype=torch.int64).sort(dim=1).values.unique(dim=0)
        unknown = wanted[~adjacent(train, wanted)].tolist()
        if unknown:
            raise UsageError(
                f"`forget` {unknown[0][0]}-{unknown[0][1]}: no edge between training nodes of this repetition.",
                "Only edges between training nodes can be forgotten; other repetitions have others (`seeds`).",
            )
        return [Request(wanted, "edge")]
    places = _places(forget, num_pairs, len(pairs), generator)
    return [Request(pairs[part.sort().values], "edge") for part in places]


def draw_feature_stream(
    forget: Forget, train_ids: Tensor, num_nodes: int, num_features: int, generator: torch.Generator
) -> list[Request]:
    """Draw training nodes uniformly, whose features are all forgotten, or take the nodes or features named.

    Args:
        forget: How much, or which.
        train_ids: int64 [m], ids of the training nodes.
        num_nodes: Nodes of the whole graph: what a ratio is a share of.
        num_features: Columns of the features.
        generator: The random generator.

    Raises:
        UsageError: The request would be empty, there are fewer training nodes, or it names a node that is not a
            training node, or a column that is not there.
    """
    if forget.ids is not None:
        named = torch.tensor(
            [one if isinstance(one, tuple) else (one, ALL_COLUMNS) for one in forget.ids], dtype=torch.int64
        )
        _check_known(named[:, 0], train_ids)
        beyond = named[named[:, 1] >= num_features].tolist()
        if beyond:
            raise UsageError(
                f"`forget` {beyond[0][0]}:{beyond[0][1]}: no such column, a node has {num_features} features.",
                "Columns are counted from 0.",
            )
        return [Request(named.unique(dim=0), "feature")]
    places = _places(forget, num_nodes, len(train_ids), generator)
    return [Request.of_features(train_ids[part].sort().values) for part in places]


def _check_known(ids: Tensor, train_ids: Tensor) -> None:
    unknown = ids[~torch.isin(ids, train_ids)]
    if len(unknown):
        raise UsageError(
            f"`forget` {int(unknown[0])}: not a training node of this repetition.",
            "Only training nodes can be forgotten; other repetitions have other training nodes (`seeds`).",
        )


def adjacent(graph: Graph, pairs: Tensor) -> Tensor:
    """Return for each pair of ids, lower first, whether an edge joins them: bool [t]."""
    # Twice in the list is there and wanted.
    _, place, count = torch.cat([graph.pairs(), pairs]).unique(dim=0, return_inverse=True, return_counts=True)
    return torch.gt(count[place[len(place) - len(pairs) :]], 1)


def _number(forget: Forget, total: int) -> int:
    count = forget.number_of(total)
    if count == 0:
        what = "edges" if forget.kind == "edge" else "nodes"
        raise UsageError(
            f"`forget_ratio` {forget.ratio} of {total} {what} rounds to none.",
            "Use a larger ratio or `forget_count`.",
        )
    return count


def _places(forget: Forget, population: int, available: int, generator: torch.Generator) -> Sequence[Tensor]:
    """Draw which of the nodes or pairs there are each request asks for: positions, int64 [count], in random order."""
    count = _number(forget, population)
    total = count * (forget.stream or 1)
    _check_room(total, available, forget.kind)
    parts: tuple[Tensor, ...] = torch.randperm(available, generator=generator)[:total].split(count)
    return parts


def _check_room(total: int, available: int, kind: Kind) -> None:
    if kind == "node" and total >= available:
        raise UsageError(
            f"The request of {total} nodes leaves none of the {available} training nodes.", "Forget fewer nodes."
        )
    if kind == "edge" and total > available:
        raise UsageError(
            f"The request of {total} edges is larger than the {available} edges between training nodes.",
            "Forget fewer edges.",
        )
    if total > available:
        raise UsageError(
            f"The request for the features of {total} nodes is larger than the {available} training nodes.",
            "Forget those of fewer nodes.",
        )
