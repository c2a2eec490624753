import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from unlearnbench.component import Spec
from unlearnbench.errors import UsageError
from unlearnbench.gnn import GCN
from unlearnbench.graph import Graph
from unlearnbench.protocol import Request
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.task import Task, Training, View, make_query
from unlearnbench.unlearning import Claim

SMALL = "num_shards=4,partitioner.epochs=3,aggregator.epochs=2,sample=30"


@pytest.fixture(scope="module")
def catalogue():
    return load_catalogue()


@pytest.fixture(scope="module")
def whole():
    draw = torch.Generator().manual_seed(0)
    n = 80
    y = torch.arange(n) % 3
    x = torch.randn(n, 8, generator=draw)
    x[torch.arange(n), y] += 2
    edges = torch.randint(n, (2, 160), generator=draw)
    return Graph(x, y, torch.cat([edges, edges.flip(0)], dim=1), torch.arange(n) + 500, 3)


def make_task(whole, seed=0):
    model = Spec("model", "gcn", GCN.version, GCN, GCN.Params())
    return Task(whole.induced(whole.ids[:60]), model, Training(epochs=5), torch.device("cpu"), seed)


def values(spec, part):
    return getattr(spec.params, part).params


def test_presets(catalogue):
    repaired, paper, released = (
        resolve(catalogue, "unlearner", text)
        for text in ("graphrevoker", "graphrevoker[preset=paper]", "graphrevoker[preset=released]")
    )
    assert [spec.params.num_shards for spec in (repaired, paper, released)] == [20, 20, 20]
    forms = [
        (p.features, p.time_form, p.sem_sign, p.sem_form, p.balance)
        for p in (values(spec, "partitioner") for spec in (repaired, paper, released))
    ]
    assert forms == [
        ("raw", "normalised", "intended", "mean", "confidence"),
        ("raw", "paper", "paper", "mean", "none"),
        ("posterior", "released", "paper", "released", "released"),
    ]
    fusions = [
        (a.attention, a.fused, a.contra_form, a.recon_sign, a.recon_alone, a.mask_form, a.resample)
        for a in (values(spec, "aggregator") for spec in (repaired, paper, released))
    ]
    assert fusions == [
        ("layered", "projected", "per-node", "intended", "skip", "softmax", True),
        ("paper", "paper", "paper", "paper", "skip", "paper", True),
        ("layered", "projected", "released", "intended", "self", "softmax", False),
    ]


def test_ablation_keys_reach_their_part(catalogue):
    text = "graphrevoker[time_weight=0,sem_weight=0,struct_weight=2,contra_weight=0,recon_weight=0.5]"
    spec = resolve(catalogue, "unlearner", text)
    partitioner, aggregator = values(spec, "partitioner"), values(spec, "aggregator")
    assert (partitioner.time_weight, partitioner.sem_weight, partitioner.struct_weight) == (0, 0, 2)
    assert (aggregator.contra_weight, aggregator.recon_weight) == (0, 0.5)
    with pytest.raises(UsageError, match="more than one part"):
        resolve(catalogue, "unlearner", "graphrevoker[epochs=3]")


def test_parts_share_only_the_names_of_an_optimiser(catalogue):
    spec = resolve(catalogue, "unlearner", "graphrevoker")
    shared = set(type(values(spec, "partitioner")).model_fields) & set(type(values(spec, "aggregator")).model_fields)
    assert shared == {"epochs", "lr", "weight_decay"}


@pytest.mark.parametrize("preset", ["repaired", "paper", "released"])
def test_after_a_request_the_state_is_that_of_a_run_without_the_nodes(catalogue, whole, preset):
    spec = resolve(catalogue, "unlearner", f"graphrevoker[preset={preset},{SMALL}]")
    task = make_task(whole)
    request = Request(task.graph.ids[[3, 17]])
    retained = task.without(request)
    query = make_query(whole, retained.graph.ids, whole.ids[60:], View.SHARD, task.device)

    unlearned = spec.build()
    unlearned.fit(task)
    before = unlearned.state()
    unlearned.unlearn(request, retained)
    never = spec.build()
    never.fit(replace(retained, given=unlearned.kept()))

    assert unlearned.claim is Claim.EXACT_GIVEN_PARTITION
    assert unlearned.claim_reason == "content"
    assert unlearned.state().keys() == never.state().keys()
    assert all(torch.equal(value, never.state()[name]) for name, value in unlearned.state().items())
    assert any(not torch.equal(value, before[name]) for name, value in unlearned.state().items())
    answer = unlearned.predict(query)
    assert torch.equal(answer, never.predict(query))
    assert torch.allclose(answer.exp().sum(dim=1), torch.ones(20), atol=1e-5)


def test_parts_work_outside_the_method(catalogue, whole):
    task = make_task(whole)
    query = make_query(whole, task.graph.ids, whole.ids[60:], View.FULL, task.device)
    for text in (
        "sharded[num_shards=4,partitioner=gpa[epochs=2],aggregator=mean]",
        "sharded[num_shards=4,partitioner=random,aggregator=contrastive[sample=0.5,view=shard,epochs=2]]",
    ):
        unlearner = resolve(catalogue, "unlearner", text).build()
        unlearner.fit(task)
        assert torch.isfinite(unlearner.predict(query)).all()


def test_announcing_imports_no_torch():
    code = (
        "import sys, unlearnbench_graphrevoker as p\n"
        "names = []\n"
        "for hook in (p.register_partitioners, p.register_aggregators, p.register_unlearners):\n"
        "    hook(lambda name, target, summary, look=None: names.append(name))\n"
        "assert names == ['gpa', 'contrastive', 'graphrevoker'], names\n"
        "assert 'torch' not in sys.modules and 'pydantic' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
