"""The audit as a whole, on partitioners that leak and on those that do not."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from plugin_samples import FakePoint, plugin_of
from pydantic import Field

import unlearnbench_retrain
import unlearnbench_sisa
from unlearnbench.audits.base import Audit
from unlearnbench.audits.leakage.attack import NORMAL_95
from unlearnbench.audits.leakage.features import undirected
from unlearnbench.audits.leakage.leakage import PartitionLeakage, dealer
from unlearnbench.audits.leakage.worlds import draw_worlds
from unlearnbench.audits.running import make_audit_plan
from unlearnbench.audits.subject import Subject
from unlearnbench.component import ComponentParams
from unlearnbench.datasets.base import Dataset
from unlearnbench.errors import NothingMatchedError
from unlearnbench.graph import Graph
from unlearnbench.records.record import Record
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.running.config import RunConfig
from unlearnbench.running.execute import execute
from unlearnbench.seeds import keyed_hash
from unlearnbench.task import Task
from unlearnbench.unlearning.partitioning import Partitioner

pytestmark = pytest.mark.slow

LEAVES = 6
TESTED = ("per target", "per target, both versions")
FORMER = ("independent seeds", "independent seeds, calibrated")
QUICK = "worlds=8,same_seed=6,draws=39"


class Stars(Dataset):
    """Forty nodes with six neighbours each, which have no other: only the middle of a star can be a target."""

    name = "stars"
    summary = "Stars."

    def load(self, root: Any) -> Graph:
        middle = torch.arange(40).repeat_interleave(LEAVES)
        leaf = 40 + torch.arange(40 * LEAVES)
        n = 40 + len(leaf)
        y = torch.arange(n) % 2
        x = torch.randn(n, 4, generator=torch.Generator().manual_seed(0))
        edges = torch.stack([middle, leaf])
        return Graph(x, y, torch.cat([edges, edges.flip(0)], dim=1), torch.arange(n) + 1000, 2)


class Clinging(Partitioner):
    """Nodes follow a neighbour of a lower id, if its own hash says that it leads; the others are hashed."""

    name = "clinging"
    summary = "Leaks."
    may_be_empty = True

    class Params(ComponentParams):
        leading: float = Field(1.0, description="Share of the nodes that lead.")

    def partition(self, task: Task, num_shards: int) -> torch.Tensor:
        ids, (source, target) = task.graph.ids, task.graph.edge_index
        leads = keyed_hash(ids, task.key("leads")).double() < self.params.leading * 2.0**63
        chosen = torch.where(leads[source], ids[source], ids.max() + 1)
        lowest = torch.full_like(ids, int(ids.max()) + 1).scatter_reduce(0, target, chosen, "amin")
        return keyed_hash(torch.minimum(ids, lowest), task.key("clinging")) % num_shards


class Following(Partitioner):
    """Leaves are where the id of their middle says, present or not: the middle's absence changes nothing."""

    name = "following"
    summary = "Leaks only where a node was."
    may_be_empty = True

    def partition(self, task: Task, num_shards: int) -> torch.Tensor:
        position = task.graph.ids - 1000
        middle = torch.where(position < 40, position, (position - 40) // LEAVES)
        return keyed_hash(middle, task.key("following")) % num_shards


@pytest.fixture(scope="module")
def catalogue() -> Any:
    made = plugin_of(datasets=[Stars], partitioners=[Clinging, Following])
    points = [("made", made), ("sisa", unlearnbench_sisa), ("retrain", unlearnbench_retrain)]
    return load_catalogue(entry_points=[FakePoint(name, plugin, "unlearnbench") for name, plugin in points])


def audited(catalogue: Any, out: Path, *methods: str, audit: str = QUICK, dataset: str = "stars") -> list[Record]:
    config = RunConfig(
        methods=list(methods), datasets=[dataset], repetitions=1, num_shards=4, epochs=1, out=out, device="cpu",
        reference=False,
    )  # fmt: skip
    plan = make_audit_plan(config, [f"partition-leakage[{audit}]"], catalogue)
    return execute(plan, compute=Audit.auditor(catalogue))


def score(record: Record, measure: str, where: str) -> dict[str, Any]:
    assert record.status == "ok", record
    (found,) = [one for one in record.audit["scores"] if (one["measure"], one["where"]) == (measure, where)]
    return found


def test_a_partition_that_leaks_is_found_and_one_by_hash_is_not(catalogue: Any, tmp_path: Path) -> None:
    leaking, hashed = audited(catalogue, tmp_path, "sisa[partitioner=clinging]", "sisa[partitioner=hash]")
    assert leaking.audit["verdict"] == "leaks"
    assert [one["where"] for one in leaking.audit["scores"] if one["measure"] == "auc"][:4] == [*TESTED, *FORMER]
    for where in (*TESTED, *FORMER):
        found = score(leaking, "auc", where)
        assert found["value"] > 0.9
        assert found["low"] > 0.8
        assert found.get("p") == (pytest.approx(1 / 40) if where in TESTED else None)
        rate = score(leaking, "tpr", f"{where}, {'1%' if where in TESTED else '10%'} false alarms")
        assert rate["value"] > 0.5
        fair = score(hashed, "auc", where)
        assert fair["low"] <= 0.5 <= fair["high"]
        assert fair["controls"]["planted"] > 0.5
    with_it, without = leaking.audit["details"]["features"]["pairs"]
    assert with_it == pytest.approx(1)
    assert without == pytest.approx(0.25, abs=0.1)
    assert hashed.audit["verdict"] != "leaks"


def test_who_holds_both_versions_sees_which_shard_a_node_left(catalogue: Any, tmp_path: Path) -> None:
    (record,) = audited(catalogue, tmp_path, "sisa[partitioner=following]")
    assert record.audit["verdict"] == "leaks with both versions"
    after, both = (score(record, "auc", where) for where in TESTED)
    assert after["value"] < 0.55
    assert after["p"] > 0.05
    assert both["low"] > 0.7


def test_who_has_the_seed_is_the_upper_bound(catalogue: Any, tmp_path: Path) -> None:
    audit = "worlds=2,same_seed=6,draws=19"
    shuffled, hashed = audited(catalogue, tmp_path, "sisa", "sisa[partitioner=hash]", audit=audit)
    upper = score(shuffled, "auc", "same seed")
    assert (upper["value"], upper["high"], upper["runs"]) == (1, 1, 6)
    assert 0.5 < upper["low"] < 1
    # Without a node no hash changes: the partition tells nothing even to who has the seed.
    lower = score(hashed, "auc", "same seed")
    assert (lower["value"], lower["low"]) == (0.5, pytest.approx(0.5))
    assert 0.5 < lower["high"] < 1
    assert score(hashed, "ari", "same seed, one node less")["value"] == 1
    assert score(hashed, "ari", "same seed, 1 nodes less")["value"] == 1
    assert abs(score(shuffled, "ari", "two seeds")["value"]) < 0.1
    rate = score(shuffled, "co-shard rate", "neighbours")
    assert rate["value"] == pytest.approx(0.25, abs=0.1)
    # One node of 196 is forgotten: shards of 49 are no longer equal, unlike fresh ones of 195 nodes.
    assert shuffled.audit["details"]["sizes"] == {"forgotten": 1, "kept": [48, 49], "fresh": [48, 49]}


def test_targets_that_share_worlds_tell_what_targets_alone_tell(catalogue: Any, tmp_path: Path) -> None:
    method = "sisa[partitioner=clinging[leading=0.4]]"
    together, alone = (
        audited(catalogue, tmp_path, method, audit=f"worlds=16,same_seed=0,draws=19,together={flag}")[0]
        for flag in ("true", "false")
    )
    assert together.audit["details"]["partitions"] == 16
    assert alone.audit["details"]["partitions"] == 16 * together.audit["details"]["targets"]
    for where in ("per target", *FORMER):
        one, other = score(together, "auc", where), score(alone, "auc", where)
        # All neighbours together in two of five worlds with a target: .5 + .4 / 2 is the most there is to find.
        assert 0.6 < one["value"] < 0.76
        assert 0.6 < other["value"] < 0.76
        errors = [(found["high"] - found["low"]) / 2 / NORMAL_95 for found in (one, other)]
        assert abs(one["value"] - other["value"]) < 3 * math.hypot(*errors)


def test_with_two_worlds_there_is_no_mean_to_compare_with(catalogue: Any, tmp_path: Path) -> None:
    (record,) = audited(catalogue, tmp_path, "sisa", audit="worlds=2,same_seed=0,draws=19,together=false,targets=20")
    assert [one["where"] for one in record.audit["scores"] if one["measure"] == "auc"] == ["independent seeds"]
    assert record.audit["details"]["partitions"] == 40
    assert "sizes" not in record.audit["details"]


def test_it_is_for_methods_with_a_partition_of_several_shards(catalogue: Any, tmp_path: Path) -> None:
    config = RunConfig(methods=["retrain"], datasets=["stars"], out=tmp_path, device="cpu")
    with pytest.raises(NothingMatchedError, match="retrain: it keeps no partition"):
        make_audit_plan(config, ["partition-leakage"], catalogue)
    audit = PartitionLeakage()
    assert audit.unfit(resolve(catalogue, "unlearner", "sisa[num_shards=1]")) == "all nodes are in one shard."
    assert audit.unfit(resolve(catalogue, "unlearner", "sisa")) == ""
    clinging = resolve(catalogue, "unlearner", "sisa[partitioner=clinging]")
    assert list(audit.effort(clinging).values()) == [0]
    partitions = audit.partitions(clinging)
    assert partitions > 120


def test_worlds_are_even() -> None:
    with pytest.raises(ValueError, match="5 is odd"):
        PartitionLeakage.Params(worlds=5)


def test_a_graph_with_too_few_targets_says_so(catalogue: Any, tmp_path: Path) -> None:
    (record,) = audited(catalogue, tmp_path, "sisa", dataset="sbm[num_nodes=120,num_edges=20]")
    assert record.audit["verdict"] == "cannot tell"
    assert "two neighbours" in record.audit["scores"][0]["note"]
    assert record.audit["scores"][0]["value"] is None


def test_worlds_have_independent_seeds_and_the_partition_is_the_methods_own(catalogue: Any) -> None:
    plan = make_audit_plan(
        RunConfig(methods=["sisa"], datasets=["stars"], repetitions=1, num_shards=4, device="cpu", reference=False),
        ["partition-leakage"],
        catalogue,
    )
    (cell,) = plan.cells
    subject = Subject(cell, plan.graphs["stars"], torch.device("cpu"), lambda name: None)  # type: ignore[arg-type, return-value]
    deal = dealer(subject, "a")
    none, some = torch.empty(0, dtype=torch.int64), torch.tensor([5, 2])
    assert torch.equal(deal(none, 0), deal(none, 0))
    assert not torch.equal(deal(none, 0), deal(none, 1))
    assert not torch.equal(deal(none, 0), dealer(subject, "b")(none, 0))
    shard = deal(some, 3)
    assert torch.nonzero(shard < 0)[:, 0].tolist() == [2, 5]
    graph = subject.train_graph.without(subject.train_graph.ids[some])
    task = subject.task(3, "a")
    own = resolve(catalogue, "partitioner", "random").build()
    expected = own.partition(Task(graph, task.model, task.training, task.device, task.seed), 4)
    assert torch.equal(shard[shard >= 0], expected)
    edges = undirected(subject.train_graph.edge_index, subject.train_graph.num_nodes)
    worlds = draw_worlds(edges, subject.train_graph.num_nodes, 20, 4, 5, False, torch.Generator())
    assert len(torch.unique(worlds.world())) == 80
