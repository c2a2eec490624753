"""What a training depends on, as a key: equal trainings give equal networks."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from torch import Tensor

from unlearnbench.component import canonical_json
from unlearnbench.graph import Graph
from unlearnbench.graph.digest import update
from unlearnbench.task import Task


def training_key(
    task: Task, graph: Graph, name: int, role: str, start: Mapping[int, Mapping[str, Tensor]], step: int
) -> str:
    """Return a digest of all that one network of `train_networks`, whose arguments these are, depends on."""
    sizes = [graph.num_features, graph.num_classes]
    about = [task.seed, task.model.canonical(), task.training.canonical(), name, role, step, sizes]
    digest = hashlib.blake2b(canonical_json(about).encode(), digest_size=16)
    rows = graph.sparse_rows
    features = {"x": graph.x} if rows is None else {"starts": rows.starts, "columns": rows.columns, "x": rows.values}
    parts = {**features, "y": graph.y, "edges": graph.edge_index, "ids": graph.ids}
    if graph.edge_weight is not None:
        parts["weights"] = graph.edge_weight
    for key, tensor in [*parts.items(), *sorted(start.get(name, {}).items())]:
        update(digest, tensor, key)
    return digest.hexdigest()
