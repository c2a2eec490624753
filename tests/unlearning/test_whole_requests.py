"""H5: every node of a request is forgotten, or the request is refused whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import ONCE, SHARDS, command, install, records_of
from method_samples import SHARDED, fitted, setting

from unlearnbench.errors import RefusedError
from unlearnbench.protocol import Request, protocol
from unlearnbench.records.store import Store
from unlearnbench.testing.graphs import toy_graph

__all__ = ["command", "install"]


def test_one_node_that_cannot_be_forgotten_refuses_them_all_before_any_work(command: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    graph = toy_graph(100, first_id=5000)
    parts = protocol.split(graph, 0, "toy", 0)
    arguments = ("run", "-m", "sisa,steady", *ONCE, *SHARDS, "--out", str(out), "--forget")
    wanted = parts.train[[3, 40, 5, 66, 20]].tolist()
    for stray, said in ((int(parts.test[0]), "not a training node"), (99999, "not a training node")):
        told = command(*arguments, ",".join(map(str, [*wanted, stray])))
        assert told.code == 2
        assert f"--forget {stray}" in told.err
        assert said in told.err
        assert not out.exists()
    assert command(*arguments, ",".join(map(str, wanted))).code == 0
    for record in records_of(out).values():
        arrays = Store(out, record.machine).arrays(record)
        assert arrays["forgotten"].tolist() == sorted(wanted)
        assert record.requests[0]["count"] == 5


@pytest.mark.parametrize("text", SHARDED)
def test_after_a_request_none_of_its_nodes_has_a_shard_left(text: str) -> None:
    _, task, request = setting()
    method = fitted(text, task)
    method.unlearn(request, task.without(request))
    assert not set(request.ids.tolist()) & set(method.kept()["partition"][:, 0].tolist())
    assert len(method.kept()["partition"]) == task.graph.num_nodes - len(request.ids)


def test_a_request_is_served_whole_or_refused():
    _, task, request = setting()
    method = fitted("sisa[num_shards=5]", task)
    strange = Request(torch.cat([request.ids, torch.tensor([5])]))
    with pytest.raises(RefusedError, match="1 nodes of the request"):
        method.unlearn(strange, task.without(request))
