"""The rules by which the audit `streams` chooses requests."""

from __future__ import annotations

import inspect

import torch
from audit_samples import Knowing, toy_subject

from unlearnbench.audits.exactness.trials import Trials
from unlearnbench.audits.streams import rules
from unlearnbench.audits.streams.fresh import published_choice
from unlearnbench.audits.subject import Subject
from unlearnbench.task import Query
from unlearnbench.testing.graphs import FIRST_ID


def subject() -> Subject:
    return toy_subject("knowing", ratio=0.1)


def test_requests_are_equal_parts_in_the_drawn_order() -> None:
    assert [part.tolist() for part in rules.parts(torch.tensor([5, 3, 9, 1, 7]), 2)] == [[3, 5, 9], [1, 7]]
    assert len(rules.parts(torch.tensor([1, 2]), 5)) == 2


def test_random_requests_are_all_of_d_whatever_the_method() -> None:
    one, other = subject(), toy_subject("stubborn", ratio=0.1)
    drawn = rules.shuffled(one, one.request.ids, rules.RANDOM)
    assert drawn.tolist() == rules.shuffled(other, other.request.ids, rules.RANDOM).tolist()
    assert drawn.tolist() != one.request.ids.tolist()
    assert drawn.sort().values.tolist() == one.request.ids.tolist()


def test_growing_begins_with_d_and_ends_at_a_share_of_all_nodes_or_half_of_the_training_nodes() -> None:
    cell = subject()
    grown = rules.growing(cell, 0.2)
    assert len(grown) == 18
    assert len(grown.unique()) == 18
    assert bool(torch.isin(grown, cell.train_graph.ids).all())
    assert sorted(grown[:9].tolist()) == cell.request.ids.tolist()
    assert len(rules.growing(cell, 0.9)) == cell.train_graph.num_nodes // 2


def test_one_shard_is_the_largest_and_its_request_no_larger_than_d() -> None:
    cell = subject()
    partition = torch.tensor([[node, 0 if node < 4 else 1 if node < 20 else 2] for node in range(30)])
    chosen = rules.one_shard(cell, partition)
    assert len(chosen) == len(cell.request.ids) == 9
    assert set(chosen.tolist()) <= set(range(4, 20))
    assert sorted(rules.one_shard(cell, partition[:12]).tolist()) == list(range(4, 12))


def test_an_adaptive_choice_is_the_most_confident_nodes_by_the_published_predictions_alone() -> None:
    assert list(inspect.signature(rules.most_confident).parameters) == ["ids", "published", "count"]
    ids = torch.tensor([8, 2, 5, 9])
    published = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.1, 0.9], [0.5, 0.5]]).log()
    assert rules.most_confident(ids, published, 1).tolist() == [5]  # as certain as 8, which has a higher id
    assert rules.most_confident(ids, published, 3).tolist() == [2, 5, 8]
    order = torch.tensor([3, 1, 0, 2])
    assert rules.most_confident(ids[order], published[order], 3).tolist() == [2, 5, 8]


class Publishes(Knowing):
    """Is most certain of the nodes with the highest ids, or the lowest; holds a secret that it does not publish."""

    name = "publishes"

    def __init__(self, sign: int, secret: int) -> None:
        self.sign, self.secret = sign, secret

    def predict(self, query: Query) -> torch.Tensor:
        place = (query.targets - FIRST_ID).double()[:, None] / 100
        certainty = place if self.sign > 0 else 1 - place
        return torch.log_softmax(certainty * torch.tensor([1.0, 0.0, 0.0]), dim=1)


def test_models_that_publish_the_same_get_the_same_requests() -> None:
    cell = subject()
    task = Trials(cell).task()
    chosen = [
        published_choice(cell, Publishes(sign, secret), task, task.graph.ids, 3).tolist()  # type: ignore[arg-type]
        for sign, secret in ((1, 1), (1, 2), (-1, 1))
    ]
    assert chosen[0] == chosen[1] == task.graph.ids.sort().values[-3:].tolist()
    assert chosen[2] != chosen[0]
