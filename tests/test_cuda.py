"""What a GPU must do as well; skipped where there is none."""

import pytest
import torch

import unlearnbench
from unlearnbench.gnn.layout import Ragged
from unlearnbench.gnn.models import GCN
from unlearnbench.testing.graphs import toy_graph

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here"),
]


def test_a_stack_gives_on_the_gpu_what_it_gives_on_the_cpu():
    graphs = [toy_graph(num_nodes=n, seed=n) for n in (12, 30, 1)]
    stack = GCN().stack(3, 8, 3)
    stack.draw([torch.Generator().manual_seed(seed) for seed in range(3)])
    stack.eval()
    layout = Ragged(graphs)
    expected = stack.head(stack.embed(layout), layout)
    there = Ragged([graph.to(torch.device("cuda")) for graph in graphs])
    found = stack.cuda().head(stack.embed(there), there)
    torch.testing.assert_close(found.cpu(), expected, atol=1e-4, rtol=1e-4)


def test_every_method_runs_on_the_gpu_and_its_memory_is_read(tmp_path):
    records = unlearnbench.run(
        ["sisa", "grapheraser", "graphrevoker"], device="cuda", epochs=5, num_shards=4, repetitions=1, out=tmp_path
    )
    for record in records:
        assert record.status == "ok", record
        assert record.cell["device"] == "cuda"
        peaks = [phase["peak_gpu_mib"] for phase in record.phases if phase["name"] in ("fit", "unlearn")]
        assert all(peak is not None and peak > 0 for peak in peaks)
