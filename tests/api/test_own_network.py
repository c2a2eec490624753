"""A network of the user's own, trained here or elsewhere, goes in and comes out as the same class."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from graph_samples import user_graph
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import Data
from torch_geometric.nn import GCN, GCNConv

import unlearnbench
from unlearnbench import Claim, UsageError
from unlearnbench.api.method import Method
from unlearnbench.api.task_from_data import OwnTask
from unlearnbench.measure.digests import digests

POSTHOC = ["gif", "idea", "megu[epochs=3]", "scrub[epochs=3]", "gradient-ascent"]


class Net(nn.Module):
    def __init__(self, classes: int = 2, last: str = "log_softmax") -> None:
        super().__init__()
        self.conv1, self.head, self.last = GCNConv(4, 8), nn.Linear(8, classes), last
        self.norm = nn.BatchNorm1d(8)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        rows = functional.dropout(self.norm(self.conv1(x, edge_index)).relu(), 0.3, self.training)
        logits: Tensor = self.head(rows)
        return logits if self.last == "none" else getattr(functional, self.last)(logits, dim=1)


class Bare(Net):
    def __init__(self) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(2))


class Detached(Net):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return super().forward(x, edge_index).detach()


def data() -> Data:
    return Data(**user_graph(ids=torch.arange(40) * 10))


def task_of(model: Any) -> OwnTask:
    return unlearnbench.task_from_data(data(), model=model, epochs=3, seed=3)


def trained(net: nn.Module, task: OwnTask) -> nn.Module:
    optimiser = torch.optim.Adam(net.parameters(), lr=0.05, weight_decay=5e-4)
    for _ in range(30):
        optimiser.zero_grad()
        functional.cross_entropy(net(task.graph.x, task.graph.edge_index), task.graph.y).backward()
        optimiser.step()
    return net.eval()


@pytest.mark.parametrize("model", [Net(), Net, lambda: Net(last="none"), GCN(4, 8, 2, 2)])
def test_members_are_copies_that_are_initialised_anew(model: Any) -> None:
    task = task_of(model)
    method = unlearnbench.method("sisa[num_shards=3]")
    method.fit(task)
    nets = [method.network(member) for member in range(3)]
    assert {type(net) for net in nets} == {GCN if isinstance(model, GCN) else Net}
    assert not torch.equal(next(nets[0].parameters()), next(nets[1].parameters()))
    again = unlearnbench.method("sisa[num_shards=3]")
    again.fit(task_of(model))
    assert digests(again.state().weights) == digests(method.state().weights)
    hit = int(task.split.train[0])
    method.forget([hit])
    assert method.predict().shape == (4, 2)
    with pytest.raises(UsageError, match="no member 3"):
        method.network(3)


@pytest.mark.parametrize("bracket", POSTHOC)
def test_a_trained_network_goes_in_and_one_without_the_nodes_comes_out(bracket: str, tmp_path: Path) -> None:
    net = Net()
    task = task_of(net)
    trained(net, task)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    method = unlearnbench.method(bracket)
    method.adopt(net, task)
    with torch.no_grad():
        x, edge_index = task.graph.x, task.graph.edge_index
        assert torch.equal(method.network()(x, edge_index), net(x, edge_index))
    first, second = ([int(node)] for node in task.split.train[:2])
    method.forget(first)
    left = method.network()
    assert type(left) is Net
    assert not left.training
    assert any(not torch.equal(value, before[name]) for name, value in left.state_dict().items())
    # The user's own network is what it was.
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert method.claim is Claim.APPROXIMATE
    assert method.claim_reason == "trained elsewhere"
    method.save(tmp_path / "s.pt")
    again = unlearnbench.load_method(tmp_path / "s.pt", data(), model=net)
    again.forget(second)
    method.forget(second)
    assert digests(again.state().weights) == digests(method.state().weights)
    assert again.claim_reason == "trained elsewhere"


def test_nothing_is_certified_of_what_was_trained_elsewhere() -> None:
    net = Net()
    method = unlearnbench.method("idea[epsilon=1]")
    task = task_of(net)
    method.adopt(trained(net, task), task)
    assert (method.unlearner.claim, method.claim) == (Claim.CERTIFIED, Claim.APPROXIMATE)
    assert "adopted" in method.state().cell


def test_a_network_that_was_not_trained_is_a_warning() -> None:
    net = Net()
    for parameter in net.parameters():
        nn.init.zeros_(parameter)
    with pytest.warns(UserWarning, match=r"adopt: 13 of 28 training nodes are classified rightly, no more than the"):
        unlearnbench.method("megu[epochs=1]").adopt(net, task_of(net))


@pytest.mark.filterwarnings("ignore:adopt")
def test_what_a_network_lacks_is_named_first() -> None:
    wrong: list[tuple[Any, str]] = [
        (Net(classes=3), r"outputs \[28, 3\] for 28 nodes"),
        (Net(last="softmax"), "outputs probabilities"),
        (nn.Linear(4, 2), "cannot be evaluated: TypeError"),
        (lambda: 3, "makes a int, no torch.nn.Module"),
        (lambda size: size, "makes no network"),
        (Bare(), "parameter shift of Bare cannot be initialised anew"),
        (GCN(-1, 8, 2, 2), "layers of no size yet"),
    ]
    for model, said in wrong:
        with pytest.raises(UsageError, match=said):
            task_of(model)
    net, detached = Net(), Detached()
    task = task_of(net)
    for bracket, module, at, said in (
        ("sisa", net, task, "sisa trains its own networks"),
        ("retrain", net, task, "retrain trains its own networks"),
        ("gnndelete", net, task, "gnndelete cannot be used with the model 'own-net'"),
        ("gif", net, task_of("gcn"), "model is gcn, not this network"),
        ("gif", Bare(), task, "has other parameters than own-net"),
        ("gif", net.state_dict(), task, "given a OrderedDict, no torch.nn.Module"),
        ("gif", detached, task_of(detached), "cannot be differentiated twice"),
        ("megu", detached, task_of(detached), "cannot be differentiated:"),
    ):
        method = unlearnbench.method(bracket)
        with pytest.raises(UsageError, match=said):
            method.adopt(module, at)
        with pytest.raises(UsageError, match="holds no model"):
            method.predict()


def test_a_run_takes_a_network_and_says_how_it_is_trained(tmp_path: Path) -> None:
    (record,) = unlearnbench.run(
        ["retrain"],
        datasets=[data()],
        models=[Net()],
        epochs=2,
        repetitions=1,
        forget_count=1,
        device="cpu",
        out=tmp_path,
    )
    assert record.status == "ok"
    assert record.cell["model"]["distribution"] == "(session)"
    assert "own-net is a module of the session: its networks are trained one by one." in record.notes
    method = Method(unlearnbench.method("retrain").spec)
    method.fit(unlearnbench.task_from_data(data(), model=Net(), epochs=2))
    assert digests(method.state().weights) == record.digests["before"]
