"""The data of a cell on its way to another process, without the labels that its method is scored with."""

from __future__ import annotations

import io
from typing import Any

import torch

from unlearnbench.graph import Graph, Split
from unlearnbench.graph.sparse_features import SparseRows
from unlearnbench.protocol import Request
from unlearnbench.protocol.protocol import RepetitionData


def seal(data: RepetitionData) -> bytes:
    """Return the data as bytes; of its labels, those of training nodes alone."""
    graph, split = data.graph, data.split
    y = torch.full_like(graph.y, -1)
    at = graph.positions(split.train)
    y[at] = graph.y[at]
    rows = graph.sparse_rows
    plain = {
        "x": graph.x if rows is None else None,
        "rows": None if rows is None else [rows.starts, rows.columns, rows.values, rows.num_columns],
        "rest": [y, graph.edge_index, graph.ids, graph.num_classes, None, graph.edge_weight],
        "split": [split.train, split.val, split.test],
        "requests": [[request.ids, request.kind] for request in data.requests],
        "setting": data.setting,
        "clean": data.clean,
        "wrong": None if data.wrong is None else [data.wrong.ids, data.wrong.kind],
    }
    content = io.BytesIO()
    torch.save(plain, content)
    return content.getvalue()


def unseal(content: bytes) -> RepetitionData:
    """Read what `seal` wrote."""
    plain: dict[str, Any] = torch.load(io.BytesIO(content), weights_only=True)
    rows = None if plain["rows"] is None else SparseRows(*plain["rows"])
    x = plain["x"] if rows is None else rows.dense()
    graph = Graph(x, *plain["rest"])
    if rows is not None:
        graph.__dict__["sparse_rows"] = rows
    requests = [Request(*one) for one in plain["requests"]]
    wrong = None if plain["wrong"] is None else Request(*plain["wrong"])
    return RepetitionData(graph, Split(*plain["split"]), requests, plain["setting"], plain["clean"], wrong)
