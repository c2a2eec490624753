"""Members of a method that another one wraps are trained on a worker with the bits they have here."""

from __future__ import annotations

import torch
from cell_samples import GRAPH, cell

from unlearnbench.running.backends.dask_members import _graph_to_arrays
from unlearnbench.running.backends.dask_worker import _own_versions, to_tensors, train_members
from unlearnbench.running.backends.order import MemberOrder
from unlearnbench.running.cell_codec import cell_to_plain
from unlearnbench.task import Task


def test_a_worker_trains_the_members_of_the_method_inside() -> None:
    made = cell("smoothed[method=sisa[num_shards=3,slices=2]]")
    task = Task(GRAPH, made.model, made.training, torch.device("cpu"), seed=5)
    here = made.method.build()
    here.fit(task)
    partition = here.kept()["partition"]
    order = MemberOrder(
        cell=cell_to_plain(made), disable_plugins=[], provenance=_own_versions(()), device="cpu", threads=1,
        deterministic=False, training=made.training.canonical(), seed=5, shards=[0, 2],
    )  # fmt: skip
    nodes = [partition[partition[:, 1] == shard, 0].numpy() for shard in (0, 2)]
    answer = train_members(order.to_json(), _graph_to_arrays(GRAPH), nodes, {})
    assert answer["differences"] == []
    members = to_tensors(answer["members"])
    deployed = here.state()
    for shard in (0, 2):
        names = [name for name in members if name.startswith(f"{shard}/")]
        assert names
        for name in names:
            assert torch.equal(members[name], deployed[f"members/{shard:03d}/{name.partition('/')[2]}"])
    assert answer["extra_state"]
