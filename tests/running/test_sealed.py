"""Cells in processes of their own: labels stay outside, scores are the same, and what ends one ends no other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from cell_samples import GRAPH, cell, surroundings
from command_line import ONCE, SMALL, Process, command, install, records_of
from misbehaving_samples import MISBEHAVING
from plugin_samples import Write

from unlearnbench.graph import Graph
from unlearnbench.protocol.poison import Poison
from unlearnbench.records.digits import kept_of_metrics
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.running.backends.processes import order_of
from unlearnbench.running.backends.sealed import seal, unseal
from unlearnbench.running.cell import Cell
from unlearnbench.running.config import make_config
from unlearnbench.running.plan import make_plan
from unlearnbench.running.runner import cell_data, run_cell, run_unscored, score_arrays

pytestmark = pytest.mark.slow

__all__ = ["command", "install"]

THIEF = """
import gc

import torch
from ub_toys import Steady

from unlearnbench import Graph, hookimpl


class Thief(Steady):
    '''Looks for a graph with labels of the nodes it is asked about, anywhere in its process.'''

    name = "thief"

    def predict(self, query):
        answer = super().predict(query)
        for graph in [one for one in gc.get_objects() if isinstance(one, Graph) and one.num_nodes == 100]:
            labels = graph.y[graph.positions(query.targets)]
            if bool((labels >= 0).all()):
                return torch.nn.functional.one_hot(labels, answer.shape[1]).float().mul(99).log_softmax(dim=1)
        return answer


@hookimpl
def register_unlearners(register):
    register(Thief)
"""


def score_of_thief(out: Path) -> float:
    (record,) = records_of(out).values()
    return float(record.metrics["f1_micro"]["full"]["after"] or 0)


def test_a_method_of_another_package_finds_no_test_label_in_its_process(
    command: Any, install: Write, tmp_path: Path
) -> None:
    install("ub-thief", THIEF)
    run = ("run", "-m", "thief", *ONCE, "--no-reference", "--out")
    assert command(*run, "here", "--no-isolate").code == 0
    assert score_of_thief(tmp_path / "here") == 1.0
    assert command(*run, "apart", "--isolate").code == 0
    assert score_of_thief(tmp_path / "apart") < 0.8
    (record,) = records_of(tmp_path / "apart").values()
    assert record.provenance["scored_outside"] is True


@pytest.mark.slow
def test_a_method_that_ends_its_process_ends_no_other_without_any_option(tmp_path: Path) -> None:
    run = ("run", "-m", "vanishes,dies,steady", *ONCE, "--out", "out")
    process = Process(tmp_path, *run, more={"ub-bad": MISBEHAVING}, plain=True)
    told = process.end()
    assert told.code == 1, told.err
    assert "4 cells: 2 ok, 2 failed" in told.err
    assert "vanishes repetition 0: killed: ProcessEnded: Its process ended with exit code 0" in told.err
    records = {name: record for (name, _), record in records_of(tmp_path / "out").items()}
    assert {name: record.status for name, record in records.items()} == {
        "vanishes": "killed", "dies": "killed", "steady": "ok", "retrain": "ok",
    }  # fmt: skip
    # Our own methods run in the process of the command.
    assert records["steady"].provenance["scored_outside"] is True
    assert "scored_outside" not in records["retrain"].provenance


def test_what_goes_to_a_cell_has_no_label_but_those_of_training_nodes() -> None:
    sparse = Graph(GRAPH.x * (GRAPH.x > 2), GRAPH.y, GRAPH.edge_index, GRAPH.ids, GRAPH.num_classes)
    plain = cell("sisa")
    for graph in (GRAPH, sparse):
        for poison in (None, Poison(5, 2), Poison(5, manipulation="label", known=0.4)):
            data = cell_data(replace(plain, protocol=replace(plain.protocol, poison=poison)), graph)
            there = unseal(seal(data))
            train = data.graph.positions(data.split.train)
            assert torch.equal(there.graph.y[train], data.graph.y[train])
            assert int((there.graph.y >= 0).sum()) == len(train)
            for name in ("x", "edge_index", "ids"):
                assert torch.equal(getattr(there.graph, name), getattr(data.graph, name))
            assert (there.graph.sparse_rows is None) == (data.graph.sparse_rows is None) == (graph is GRAPH)
            for name, ids in data.split.parts().items():
                assert torch.equal(there.split.parts()[name], ids)
            assert torch.equal(there.request.ids, data.request.ids)
            assert (there.request.kind, there.clean is None) == (data.request.kind, data.clean is None)
            assert (there.wrong is None) == (data.wrong is None)
            if data.wrong is not None and there.wrong is not None:
                assert torch.equal(there.wrong.ids, data.wrong.ids)


@pytest.mark.parametrize("name", ["retrain", "graphrevoker[num_shards=4]", "sisa[num_shards=4]", "gif", "noop"])
@pytest.mark.parametrize("poison", [None, Poison(5, 2)])
def test_scores_from_outside_are_those_of_one_process_bit_for_bit(name: str, poison: Poison | None) -> None:
    made = cell(name)
    made = replace(made, protocol=replace(made.protocol, poison=poison))
    data, context = cell_data(made, GRAPH), surroundings()
    record, arrays, _ = run_cell(made, GRAPH, context)
    other, received, _ = run_unscored(made, unseal(seal(data)), context)
    assert record.status == other.status == "ok"
    assert other.metrics == {}
    assert record.metrics == kept_of_metrics(score_arrays(received, data, context.metrics)[0]) != {}
    assert (record.digests, record.counts) == (other.digests, other.counts)
    ours, theirs = ({key: value.tobytes() for key, value in each.items()} for each in (arrays, received))
    assert ours == theirs


@pytest.mark.slow
def test_runs_of_our_methods_are_the_same_with_and_without_isolation(command: Any, tmp_path: Path) -> None:
    arguments = ("run", "-m", "sisa,gif", *SMALL, "--repetitions", "1", "--num-shards", "3", "--out")
    assert command(*arguments, "here").code == 0
    assert command(*arguments, "apart", "--isolate").code == 0
    here, apart = records_of(tmp_path / "here"), records_of(tmp_path / "apart")
    assert here.keys() == apart.keys()
    for place, record in here.items():
        for field in ("key", "status", "metrics", "digests", "counts", "requests", "partition"):
            assert getattr(record, field) == getattr(apart[place], field), (place, field)


def test_only_methods_of_this_distribution_share_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = make_config({"methods": ["retrain"], "datasets": ["digits"], "out": tmp_path, "device": "cpu"})
    plan = make_plan(config, load_catalogue())
    cell = plan.cells[0]
    assert order_of(plan, cell, shared=tmp_path).shared == str(tmp_path)
    assert order_of(plan, cell).shared is None
    monkeypatch.setattr(Cell, "runs_foreign_code", lambda self: True)
    assert order_of(plan, cell, shared=tmp_path).shared is None
