import pytest
import torch

from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.testing.graphs import toy_graph, toy_task
from unlearnbench.unlearning.aggregation import Aggregator, Members, sample_of


def members(probabilities, sizes):
    logits = torch.tensor(probabilities).log()
    return Members(torch.zeros(*logits.shape[:2], 4), logits, torch.full((logits.shape[1],), -1), torch.tensor(sizes))


def combined(name, said):
    aggregator = resolve(load_catalogue(), "aggregator", name).build()
    before = said.logits.clone()
    first = aggregator.combine(said)
    assert torch.equal(first, aggregator.combine(said))
    assert torch.equal(before, said.logits)
    return first.exp()


def test_fixed_votes_by_hand():
    said = members([[[0.9, 0.1]], [[0.2, 0.8]]], [30, 10])
    torch.testing.assert_close(combined("mean", said), torch.tensor([[0.55, 0.45]]))
    torch.testing.assert_close(combined("proportional", said), torch.tensor([[0.725, 0.275]]))
    geometric = torch.tensor([[0.9 * 0.2, 0.1 * 0.8]]).sqrt()
    torch.testing.assert_close(combined("mean_log", said), geometric / geometric.sum())
    votes = combined("majority", said)
    torch.testing.assert_close(votes, torch.tensor([[0.5, 0.5]]))
    assert int(votes.argmax()) == 0


@pytest.mark.parametrize("name", ["mean", "mean_log", "majority", "proportional"])
def test_a_retired_member_never_votes(name):
    said = members([[[0.7, 0.3]], [[0.01, 0.99]]], [5, 0])
    alone = members([[[0.7, 0.3]]], [5])
    torch.testing.assert_close(combined(name, said), combined(name, alone))


@pytest.mark.parametrize("name", ["mean", "mean_log", "majority", "proportional"])
def test_certain_members_give_finite_log_probabilities(name):
    said = members([[[1.0, 0.0]], [[1.0, 0.0]]], [1, 1])
    aggregator = resolve(load_catalogue(), "aggregator", name).build()
    rows = Members(said.embeddings, torch.tensor([[[200.0, -200.0]]]).repeat(2, 1, 1), said.shard, said.sizes)
    assert bool(torch.isfinite(aggregator.combine(rows)).all())


class Sampling(Aggregator):
    name = "sampling"

    def __init__(self, sample):
        super().__init__()
        self.sample = sample

    def combine(self, members):
        return members.logits[0]


def test_the_sample_refills_after_a_request_and_equals_that_of_a_run_that_never_saw_it():
    from unlearnbench.protocol import Request

    task = toy_task(toy_graph(num_nodes=100, first_id=10**9))
    first = sample_of(Sampling(30), task)
    assert len(first) == 30
    retained = task.without(Request(first[:4]))
    second = sample_of(Sampling(30), retained)
    assert len(second) == 30
    assert set(first[4:].tolist()) < set(second.tolist())
    never = toy_task(task.graph.without(first[:4]))
    assert torch.equal(second, sample_of(Sampling(30), never))
    assert len(sample_of(Sampling(0.2), task)) == 20
    assert len(sample_of(Sampling(1000), task)) == 100
