"""Handwritten digits joined to their nearest neighbours: real data that needs no download."""

from __future__ import annotations

import gzip
from importlib import metadata
from pathlib import Path

import numpy as np
import torch

from unlearnbench.datasets.base import Dataset
from unlearnbench.graph import Graph

NEIGHBOURS = 5
FILE = "sklearn/datasets/data/digits.csv.gz"
"""What `sklearn.datasets.load_digits` reads, without the second that importing it takes."""


class Digits(Dataset):
    """The 1,797 digits of 8 x 8 pixels that scikit-learn ships, each joined to its 5 nearest.

    Features are the pixels as they come, 0 to 16: two-layer networks trained by the protocol
    reach the same accuracy on them as on pixels divided by 16. The graph is made of the
    features of all nodes: how its edges came about is outside what forgetting covers.
    """

    name = "digits"
    summary = "1,797 handwritten digits joined to their 5 nearest neighbours; ships with scikit-learn."
    reference = "Alpaydin and Kaynak, Optical recognition of handwritten digits, UCI repository, 1998."
    license = "CC BY 4.0 (UCI)"
    source = "sklearn.datasets.load_digits"

    def load(self, root: Path) -> Graph:
        """Make the graph: see `Dataset.load`. Node ids are 0..1796."""
        file = Path(str(metadata.distribution("scikit-learn").locate_file(FILE)))
        lines = gzip.decompress(file.read_bytes()).decode("ascii").splitlines()
        table = np.fromstring(",".join(lines), sep=",").reshape(len(lines), -1)
        pixels, labels = table[:, :-1], table[:, -1]
        x = torch.from_numpy(pixels).to(torch.float32)
        y = torch.from_numpy(labels).to(torch.int64)
        edge_index = torch.from_numpy(nearest_neighbour_edges(pixels, NEIGHBOURS))
        return Graph(x, y, edge_index, torch.arange(len(y)), 10)


def nearest_neighbour_edges(points: np.ndarray, neighbours: int) -> np.ndarray:
    """Join each point to its nearest others; of points equally near, the first ones.

    Library searches break ties by the order of their sums, which differs between machines.
    Distances between whole numbers are exact in float64, whatever the order of sums.

    Args:
        points: [n, d], whole numbers, n in the low thousands: all pairs are compared.
        neighbours: How many each point is joined to, less than n.

    Returns:
        int64 [2, E]: both directions of each edge, none twice, none from a point to itself;
        sorted by source, then target.

    Raises:
        ValueError: Coordinates are not whole numbers, or too large ones, or there are too few points.
    """
    exact = points.astype(np.float64)
    if not np.array_equal(exact, np.rint(exact)):
        raise ValueError("Coordinates must be whole numbers: distances would not be exact.")
    if not 0 < neighbours < len(exact):
        raise ValueError(f"{len(exact)} points cannot have {neighbours} neighbours each.")
    count = len(exact)
    squares = (exact**2).sum(axis=1)
    # The distance first, then the index, in one whole number: no two are equal, so that nothing has to be sorted.
    order = (squares[:, None] + squares[None, :] - 2 * exact @ exact.T) * count + np.arange(count)
    if not order.max() < 2**53:
        raise ValueError("Coordinates are too large: distances would not be exact.")
    np.fill_diagonal(order, np.inf)
    nearest = np.argpartition(order, neighbours - 1, axis=1)[:, :neighbours].ravel()
    source = np.repeat(np.arange(count), neighbours)
    pairs = np.unique(np.concatenate([source * count + nearest, nearest * count + source]))
    return np.stack(np.divmod(pairs, count)).astype(np.int64)
