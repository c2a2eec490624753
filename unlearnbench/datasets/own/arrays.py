"""What strangers' arrays become: features, labels, edges and ids as a `Graph` wants them."""

from __future__ import annotations

import operator
from typing import Any, Literal

import torch
from torch import Tensor

from unlearnbench.errors import DataError
from unlearnbench.graph.edge_keys import pair_keys, unique_keys

Features = Literal["given", "degree", "constant"]
# More than any published graph has; a larger label is an id, or a number that was read wrongly.
MOST_CLASSES = 100_000
# Up to so many, a graph of a few nodes is a graph of a few nodes.
FEW_CLASSES = 10


def class_labels(y: Tensor) -> tuple[Tensor, list[str]]:
    """Make class labels of whole numbers of any type, [n] or [n, 1]; negative or NaN means no label.

    Returns:
        int64 [n], -1 where there is no label, and what should be said about it.

    Raises:
        DataError: Several labels a node, a label that is not a whole number or too large, or no label at all.
    """
    if y.dim() == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.dim() != 1:
        one_hot = y.dim() == 2 and bool(((y == 0) | (y == 1)).all() and (y.sum(dim=1) == 1).all())
        what = "they are one-hot" if one_hot else "multi-label graphs cannot be used"
        hint = "Save the class of each node: y.argmax(dim=1)." if one_hot else "Give every node one class."
        raise DataError(f"labels have shape {list(y.shape)}: {what}.", hint)
    if y.is_complex():
        raise DataError("labels are complex numbers.", "Number the classes 0, 1, ...")
    notes = []
    if y.is_floating_point():
        odd = ~torch.isnan(y) & ((y != y.round()) | torch.isinf(y))
        if bool(odd.any()):
            row = int(torch.nonzero(odd)[0])
            raise DataError(f"label {y[row].item():g} in row {row} is not a whole number.", "Number the classes.")
        notes.append(f"labels are {str(y.dtype).removeprefix('torch.')}; all are whole numbers and taken as classes.")
        y = y.nan_to_num(nan=-1.0).clamp(min=-1)
    else:  # the bound does not fit into 8 or 16 bits
        y = y.to(torch.int64)
    if bool((y >= MOST_CLASSES).any()):
        row = int(torch.nonzero(y >= MOST_CLASSES)[0])
        raise DataError(f"label {y[row].item():g} in row {row} is too large.", "Number the classes 0, 1, ...")
    labels = y.to(torch.int64).clamp(min=-1)
    unlabelled = int((labels < 0).sum())
    if unlabelled == len(labels):
        raise DataError("no node has a label.", "Number the classes 0, 1, ...; negative numbers mean unknown.")
    if unlabelled:
        notes.append(f"{unlabelled} nodes have no label: they are neither trained on nor scored.")
    return labels, notes


def check_edge_shape(edge_index: Tensor, y: Tensor) -> None:
    """Check the shape of `edge_index`, which may have any layout; an adjacency matrix is never made dense.

    Raises:
        DataError: It is not [2, E].
    """
    shape = list(edge_index.shape)
    if len(shape) == 2 and shape[0] == 2:
        return
    if shape == [*y.shape[:1]] * 2:
        what = "edge_index = torch_geometric.utils.dense_to_sparse(adjacency)[0] makes it of an adjacency matrix."
    else:
        what = "Transpose a list of pairs: edge_index.t()." if shape[1:] == [2] else "It holds sources and targets."
    raise DataError(f"edge_index has shape {shape}, expected [2, E].", what)


def edge_columns(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Make the columns of `edge_index`, int64 [2, E], of whole numbers; an empty one may be of any type.

    Raises:
        DataError: Numbers that are not whole, or that are no positions of nodes.
    """
    if edge_index.is_complex() or (edge_index.dtype == torch.bool and edge_index.numel()):
        raise DataError(f"edge_index is {edge_index.dtype}.", "It holds positions of nodes: whole numbers.")
    edges = edge_index.to(torch.int64)
    if edge_index.is_floating_point() and not torch.equal(edges.to(edge_index.dtype), edge_index):
        raise DataError("edge_index holds numbers that are not whole.", "It holds positions of nodes: whole numbers.")
    outside = (edges < 0) | (edges >= num_nodes)
    if bool(outside.any()):
        column = int(torch.nonzero(outside)[0, 1])
        raise DataError(
            f"edge {column} joins {int(edges[0, column])} and {int(edges[1, column])},"
            f" but there are {num_nodes} nodes.",
            "edge_index holds positions, rows of x and y, not ids.",
        )
    return edges.contiguous()


def both_directions(edges: Tensor, num_nodes: int) -> Tensor:
    """Add the reverse of every edge that lacks it, and drop duplicates: int64 [2, E]."""
    keys = [pair_keys(edges[0], edges[1], num_nodes), pair_keys(edges[1], edges[0], num_nodes)]
    both = unique_keys(torch.cat(keys))
    return torch.stack([both // num_nodes, both % num_nodes])


def node_features(x: Tensor | None, edge_index: Tensor, num_nodes: int, features: Features) -> Tensor:
    """Make node features, float32 [n, F].

    They are `given` by x, [n, F] or [n] (one feature); or the `degree`, the number of edges that end in a node; or
    `constant`, 1.

    Raises:
        DataError: There are none, and no others were asked for.
    """
    if features == "constant":
        return torch.ones(num_nodes, 1)
    if features == "degree":
        return torch.bincount(edge_index[1], minlength=num_nodes)[:, None].to(torch.float32)
    if x is None or x.numel() == 0:
        what = "there are no features" if x is None else f"features have shape {list(x.shape)}"
        raise DataError(f"{what}.", "Add features=degree or features=constant: file:PATH[features=degree].")
    if x.is_complex():
        raise DataError("features are complex numbers.", "Give real numbers.")
    return (x[:, None] if x.dim() == 1 else x).to(torch.float32)


def node_ids(ids: Tensor | None, num_nodes: int) -> Tensor:
    """Make node ids, int64 [n]: 0..n-1 where there are none.

    Raises:
        DataError: Another shape or type.
    """
    if ids is None:
        return torch.arange(num_nodes)
    if ids.shape != (num_nodes,) or ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
        raise DataError(
            f"ids are {ids.dtype} of shape {list(ids.shape)}, expected whole numbers, [{num_nodes}].",
            "Give every node one id, or leave ids out.",
        )
    return ids.to(torch.int64)


def number_of_classes(declared: Any, y: Tensor) -> int:
    """Count the classes: as many as declared, by a number or a tensor of one, else one more than the largest label.

    Raises:
        DataError: What was declared is no number or smaller than a label allows.
    """
    least = int(y.max()) + 1
    if declared is None:
        return least
    try:
        value: Any = declared.item() if isinstance(declared, Tensor) else declared
        count = operator.index(value)
    except (TypeError, RuntimeError):
        raise DataError(f"num_classes is {declared!r}, not a whole number.", "Give one whole number.") from None
    if count > MOST_CLASSES:
        raise DataError(f"num_classes is {count}.", f"At most {MOST_CLASSES} classes can be used.")
    if count < least:
        raise DataError(f"label {least - 1} with {count} classes.", f"num_classes must be at least {least}.")
    return count


def odd_classes(y: Tensor, count: int) -> list[str]:
    """Return a note where there are so many classes, or so many that do not occur, that `y` may be something else."""
    labels = y[y >= 0]
    seen = len(labels.unique())
    if count <= FEW_CLASSES or (len(labels) >= 5 * count and count <= 2 * seen):
        return []
    return [f"{count} classes, {seen} of them with a node, for {len(labels)} nodes with a label: are these classes?"]
