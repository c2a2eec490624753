"""On a CPU a network's bits depend on nothing but itself."""

import pytest
import torch
from model_samples import MODELS, seeded, shards, with_features
from torch.nn import functional

from unlearnbench.gnn import train_networks
from unlearnbench.gnn.functional import elu
from unlearnbench.graph.sparse_features import is_sparse_enough
from unlearnbench.testing.graphs import toy_graph, toy_task

# Sixteen columns leave a rest beyond whole vectors, which torch computes entry by entry.
NARROW = ["gcn[hidden=16]", "gat[hidden=16,heads=2]", "gatv2[hidden=16,heads=2]"]
CASES = [*((model, density) for model in MODELS for density in (None, 0.05)), *((model, None) for model in NARROW)]
# The others are tried at each change too, among networks of other densities.
QUICK = ("gcn", "gcn[hidden=16]")


@pytest.mark.parametrize(
    ("model", "density"),
    [pytest.param(*case, marks=[] if case[0] in QUICK else pytest.mark.slow) for case in CASES],
)
def test_a_network_has_the_same_bits_alone_among_3_and_among_20(model, density):
    task = toy_task(model=model, epochs=40)
    parts = shards(20, density)
    many = train_networks(task, parts, range(20))
    few = train_networks(task, [parts[4], parts[11], parts[7]], [4, 11, 7])
    for place, network in enumerate([4, 11, 7]):
        alone = train_networks(task, [parts[network]], [network])
        for name, value in many.state(network).items():
            assert torch.equal(value, few.state(place)[name]), name
            assert torch.equal(value, alone.state(0)[name]), name
    for name, value in many.state(4).items():
        assert not torch.equal(value, many.state(5)[name]), name


@pytest.mark.parametrize("model", MODELS)
def test_a_network_has_the_same_bits_among_networks_of_other_densities(model):
    task = toy_task(model=model, epochs=30)
    parts = [with_features(part, density, 200) for part, density in zip(shards(4), (0.05, 0.3, 0.9, 0.1), strict=True)]
    assert {is_sparse_enough(part.x) for part in parts} == {True, False}
    many = train_networks(task, parts, range(4))
    for network in range(4):
        alone = train_networks(task, [parts[network]], [network])
        for name, value in many.state(network).items():
            assert torch.equal(value, alone.state(0)[name]), name


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_two_threads_give_the_bits_of_one(model):
    task = toy_task(model=model, epochs=3)
    graph = toy_graph(num_nodes=600, edges=1500)
    networks, before = [], torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            networks.append(train_networks(task, [graph], [0]))
    finally:
        torch.set_num_threads(before)
    for name, value in networks[0].state(0).items():
        assert torch.equal(value, networks[1].state(0)[name]), name


def test_elu_equals_torchs_and_gives_an_entry_the_same_bits_anywhere():
    rows = torch.randn(5000, generator=seeded()) * 3
    torch.testing.assert_close(elu(rows), functional.elu(rows))
    for length in (1, 7, 15, 16, 17, 33, 100):
        assert torch.equal(elu(rows[3 : 3 + length].clone()), elu(rows)[3 : 3 + length])
