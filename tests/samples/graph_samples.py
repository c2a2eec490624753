"""Small graphs in the formats of published ones and of users' files."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
from collections import defaultdict
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
import torch

from unlearnbench.datasets.catalogue_of_graphs import GRAPHS, GraphRow, GraphSize
from unlearnbench.datasets.published import PublishedGraph, published_graph

NODES, FEATURES, CLASSES, TEST, LABELLED = 700, 6, 3, 100, 60


class Bomb:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.folder),)


def planetoid_files(title: str = "small") -> dict[str, bytes]:
    """A ring of nodes whose test nodes come last, in shuffled order; feature 0 is the node's number."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2, (NODES, FEATURES)).astype(np.float32)
    x[:, 0] = np.arange(NODES)
    y = np.eye(CLASSES, dtype=np.int32)[np.arange(NODES) % CLASSES]
    first_test = NODES - TEST
    order = first_test + rng.permutation(TEST)
    graph = {i: [(i + 1) % NODES, (i - 1) % NODES] for i in range(NODES)}
    sparse = scipy.sparse.csr_matrix
    parts: dict[str, Any] = {
        "x": sparse(x[:LABELLED]),
        "y": y[:LABELLED],
        "allx": sparse(x[:first_test]),
        "ally": y[:first_test],
        "tx": sparse(x[order]),
        "ty": y[order],
        "graph": defaultdict(list, graph),
    }
    files = {f"ind.{title}.{part}": pickle.dumps(value, protocol=4) for part, value in parts.items()}
    files[f"ind.{title}.test.index"] = "".join(f"{i}\n" for i in order).encode()
    return files


def npz(**changes: Any) -> bytes:
    adjacency = scipy.sparse.csr_matrix(np.array([[0, 1, 0], [0, 1, 1], [0, 0, 0]], dtype=np.float32))
    attributes = scipy.sparse.csr_matrix(np.array([[3, 0], [0, 1], [0, 0]], dtype=np.float32))
    arrays: dict[str, Any] = {"labels": np.array([0, 1, 1])}
    for prefix, matrix in (("adj", adjacency), ("attr", attributes)):
        arrays |= {f"{prefix}_{key}": getattr(matrix, key) for key in ("data", "indices", "indptr")}
        arrays[f"{prefix}_shape"] = np.array(matrix.shape)
    buffer = io.BytesIO()
    np.savez(buffer, **{key: value for key, value in {**arrays, **changes}.items() if value is not None})
    return buffer.getvalue()


def archive(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def sparse_archive(matrix: Any) -> bytes:
    buffer = io.BytesIO()
    scipy.sparse.save_npz(buffer, scipy.sparse.csr_matrix(matrix))
    return buffer.getvalue()


def array(values: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, values)
    return buffer.getvalue()


def masks(suffix: str, count: int) -> dict[str, Any]:
    """Ten splits, or the one of a file."""
    shape = (count, 4) if count > 1 else (4,)
    return {f"{part}_mask{suffix}": np.ones(shape, dtype=bool) for part in ("train", "val", "test")}


# Four nodes, labels 0 1 1 0, features 2 i + column, undirected edges 0-1, 1-2 and nothing at 3.
X = np.arange(8, dtype=np.float32).reshape(4, 2)
Y = np.array([0, 1, 1, 0])
BOTH_WAYS = np.array([[0, 1], [1, 0], [1, 2], [2, 1]])
ONE_WAY = np.array([[0, 1], [1, 2]])
BLOG = {
    "attrs.npz": sparse_archive(X),
    "edgelist.txt": "".join(f"{a} {b}\n" for a, b in BOTH_WAYS).encode(),
    "labels.txt": "".join(f"{i} {label + 1}\n" for i, label in enumerate(Y)).encode(),
}
LASTFM = {"lastfm_asia.npz": archive(edges=BOTH_WAYS, features=X.astype(np.float64), target=Y)}
FLICKR = {
    "adj_full.npz": sparse_archive(scipy.sparse.coo_matrix((np.ones(4), BOTH_WAYS.T), shape=(4, 4))),
    "feats.npy": array(X.astype(np.float64)),
    "class_map.json": json.dumps({str(i): int(label) for i, label in enumerate(Y)}).encode(),
    "role.json": json.dumps({"tr": [3, 0], "va": [1], "te": [2]}).encode(),
}


def heterophilous(title: str) -> dict[str, bytes]:
    content = archive(node_features=X, node_labels=Y, edges=ONE_WAY, **masks("s", 10))
    return {f"{title}.npz": content}


def geom(title: str, features: list[str]) -> dict[str, bytes]:
    nodes = ["node_id\tfeature\tlabel", *(f"{i}\t{features[i]}\t{label}" for i, label in enumerate(Y))]
    edges = ["node_id\tnode_id", *(f"{a}\t{b}" for a, b in ONE_WAY)]
    return {
        "out1_node_feature_label.txt": "\n".join([*nodes, ""]).encode(),
        "out1_graph_edges.txt": "\n".join([*edges, ""]).encode(),
        **{f"{title}_split_0.6_0.2_{i}.npz": archive(**masks("", 1)) for i in range(10)},
    }


def table(rows: Any) -> bytes:
    return gzip.compress("".join(",".join(str(value) for value in row) + "\n" for row in rows).encode(), mtime=0)


def ogb(split_type: str) -> dict[str, bytes]:
    return {
        "raw/edge.csv.gz": table(ONE_WAY),
        "raw/node-feat.csv.gz": table(X),
        "raw/node-label.csv.gz": table(Y[:, None]),
        "raw/num-node-list.csv.gz": table([[4]]),
        **{
            f"split/{split_type}/{part}.csv.gz": table([[i] for i in ids])
            for part, ids in (("train", [0, 3]), ("valid", [1]), ("test", [2]))
        },
    }


WORDS = [",".join(str(float(value)) for value in row) for row in X]
SAMPLES: dict[str, dict[str, bytes]] = {
    "blogcatalog": BLOG,
    "lastfm-asia": LASTFM,
    "flickr": FLICKR,
    **{
        name: heterophilous(name.replace("-", "_"))
        for name in ("roman-empire", "amazon-ratings", "minesweeper", "tolokers", "questions")
    },
    "chameleon": geom("chameleon", WORDS),
    "squirrel": geom("squirrel", WORDS),
    "actor": geom("film", ["0", "1", "0,1", "1"]),
    "ogbn-arxiv": ogb("time"),
    "ogbn-products": ogb("sales_ranking"),
}


ROWS = {row.name: row for row in GRAPHS}


def small(dataset: type[PublishedGraph], size: GraphSize) -> PublishedGraph:
    """The same loader for a smaller graph."""
    return published_graph(replace(dataset.row, size=size))()


SMALL = replace(
    ROWS["cora"],
    name="small",
    folder="Planetoid/Small/raw",
    size=GraphSize(NODES, 2 * NODES, FEATURES, CLASSES),
    files={name: sha256(content).hexdigest() for name, content in planetoid_files().items()},
)


def small_planetoid(row: GraphRow = SMALL) -> PublishedGraph:
    """The graph of `planetoid_files()`."""
    return published_graph(row)()


def put(root: Path, folder: str, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        path = root / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root / folder


def user_graph(nodes: int = 40, **changes: Any) -> dict[str, Any]:
    """Tensors of a small graph whose features tell the class; a value of None is left out."""
    rng = torch.Generator().manual_seed(0)
    y = torch.arange(nodes) % 2
    x = torch.randn(nodes, 4, generator=rng)
    x[torch.arange(nodes), y] += 3
    ends = torch.arange(nodes - 2)
    edges = torch.stack([ends, ends + 2])
    tensors: dict[str, Any] = {"x": x, "y": y, "edge_index": torch.cat([edges, edges.flip(0)], dim=1)}
    return {key: value for key, value in {**tensors, **changes}.items() if value is not None}


def saved(path: Path, **changes: Any) -> Path:
    """Save `user_graph` as a torch file."""
    torch.save(user_graph(**changes), path)
    return path


def tables(folder: Path, features: str, labels: str, edges: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("features.csv", features), ("labels.csv", labels), ("edges.csv", edges)):
        if text:
            (folder / name).write_text(text, encoding="utf-8")
    return folder
