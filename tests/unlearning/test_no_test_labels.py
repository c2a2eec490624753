"""H8: no parameter depends on a label of a test or validation node."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from cell_samples import GRAPH, cell, surroundings
from command_line import command, install

from unlearnbench.graph import Graph
from unlearnbench.running.runner import run_cell

__all__ = ["command", "install"]


@pytest.mark.slow
def test_replacing_every_test_and_validation_label_by_noise_changes_no_output():
    for method in ("retrain", "sisa[num_shards=5]", "grapheraser[num_shards=5]", "graphrevoker[num_shards=5]"):
        made = cell(method)
        _, arrays, state = run_cell(made, GRAPH, surroundings())
        y = GRAPH.y.clone()
        hidden = torch.from_numpy(np.concatenate([arrays["test"], arrays["val"]]))
        at = GRAPH.positions(hidden)
        y[at] = torch.randint(3, (len(at),), generator=torch.Generator().manual_seed(9))
        noisy = Graph(GRAPH.x, y, GRAPH.edge_index, GRAPH.ids, 3)
        record, others, changed = run_cell(made, noisy, surroundings())
        assert record.status == "ok"
        assert all(np.array_equal(arrays[name], others[name]) for name in arrays)
        assert all(torch.equal(state[name], changed[name]) for name in state)
