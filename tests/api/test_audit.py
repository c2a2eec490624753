"""Audits from Python take classes, networks and graphs of a session, and are those of the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from graph_samples import user_graph
from torch_geometric.data import Data
from torch_geometric.nn import GCN

import unlearnbench
from unlearnbench import Claim, PostHoc, Request, Task, UsageError
from unlearnbench.errors import NothingMatchedError
from unlearnbench.gnn import Networks

QUICK: dict[str, Any] = {"epochs": 2, "forget_count": 2, "device": "cpu"}


class Idle(PostHoc):
    name = "idle"
    claim = Claim.EXACT

    def update(self, network: Networks, task: Task, request: Request, retained: Task) -> Networks:
        return network


def test_a_class_that_does_nothing_is_refuted_on_a_graph_and_a_network_of_the_session(tmp_path: Path) -> None:
    seen: list[str] = []
    data, net = Data(**user_graph()), GCN(4, 8, num_layers=2, out_channels=2)
    records = unlearnbench.audit(
        "exactness[runs=5]",
        [Idle],
        datasets=[data],
        models=[net],
        out=tmp_path,
        on_record=lambda record: seen.append(record.label),
        **QUICK,
    )
    assert [record.label for record in records] == seen == ["retrain", "idle"]
    retrain, idle = (record.audit or {} for record in records)
    assert retrain["verdict"] == "exact"
    assert idle["details"]["claim_holds"] is False
    # What has a record is not audited again.
    unlearnbench.audit(["exactness[runs=5]"], Idle, datasets=[data], models=[net], out=tmp_path, **QUICK)
    assert len(list(tmp_path.rglob("records/*/*/*/*.json"))) == 2


def test_one_repetition_and_five_percent_are_the_defaults(tmp_path: Path) -> None:
    (record, _) = unlearnbench.audit("distance", "noop", datasets=[user_graph()], epochs=2, out=tmp_path)
    assert record.cell["protocol"]["forget"] == {"kind": "node", "ratio": 0.05}
    assert record.cell["repetition"] == 0


@pytest.mark.parametrize(
    ("audits", "methods", "settings", "message"),
    [
        ("exactnes", "noop", {}, "Unknown audit 'exactnes'"),
        ("exactness", "noop", {"speed": 3}, "unlearnbench.audit.*speed"),
        ([torch.nn.Linear], "noop", {}, "is no audit"),
    ],
)
def test_what_cannot_be_audited_is_named(
    audits: Any, methods: str, settings: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=f"(?s){message}"):
        unlearnbench.audit(audits, methods, datasets=[user_graph()], out=tmp_path, **QUICK, **settings)
    with pytest.raises(NothingMatchedError, match="nothing to audit"):
        unlearnbench.audit("partition-leakage", "noop", datasets=[user_graph()], reference=False, out=tmp_path, **QUICK)
    assert not list(tmp_path.iterdir())
