"""Measures of forgetting against values worked by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from unlearnbench.audits.distance.measures import (
    DISTANCES,
    disagreement,
    divergence,
    logit_distance,
    loss_scores,
    pairwise,
    shift_scores,
)
from unlearnbench.audits.distance.node_groups import make_groups
from unlearnbench.graph import Graph


def logs(*rows: list[float]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64).log()


def random_answers(runs: int = 4, nodes: int = 6, classes: int = 3) -> Tensor:
    return torch.log_softmax(torch.randn(runs, nodes, classes, generator=torch.Generator().manual_seed(0)), dim=-1)


def test_disagreement_counts_nodes_of_another_class() -> None:
    one = logs([0.7, 0.3], [0.4, 0.6], [0.9, 0.1], [0.2, 0.8])
    other = logs([0.6, 0.4], [0.6, 0.4], [0.8, 0.2], [0.3, 0.7])
    assert disagreement(one, torch.stack([one, other])).tolist() == [0.0, 0.25]


def test_divergence_of_opposite_certainties_is_ln_2_and_of_half_certainty_as_worked_by_hand() -> None:
    certain, opposite, unsure = logs([1.0, 0.0]), logs([0.0, 1.0]), logs([0.5, 0.5])
    # The middle of (1, 0) and (1/2, 1/2) is (3/4, 1/4); entropy of it less half of ln 2.
    half = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25)) - math.log(2) / 2
    assert divergence(certain, torch.stack([certain, opposite, unsure])).tolist() == pytest.approx(
        [0, math.log(2), half]
    )


def test_divergence_is_averaged_over_nodes() -> None:
    one, other = logs([1.0, 0.0], [1.0, 0.0]), logs([0.0, 1.0], [1.0, 0.0])
    assert divergence(one, other[None]).item() == pytest.approx(math.log(2) / 2)


def test_logit_distance_forgets_what_is_added_to_a_row() -> None:
    logits = torch.tensor([[0.0, 2.0], [1.0, 1.0]], dtype=torch.float64)
    swapped = torch.tensor([[2.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    # Centred rows (-1, 1) and (1, -1) are sqrt(8) apart, the second rows not at all.
    assert logit_distance(logits, (swapped + 5)[None]).item() == pytest.approx(math.sqrt(8) / 2)
    assert logit_distance(torch.log_softmax(logits, 1), torch.log_softmax(logits, 1)[None]).item() == 0


def test_logit_distance_to_a_probability_of_zero_is_not_a_number() -> None:
    assert math.isnan(logit_distance(logs([0.5, 0.5]), logs([1.0, 0.0])[None]).item())


@pytest.mark.parametrize("name", DISTANCES)
def test_pairs_are_what_each_pair_gives(name: str) -> None:
    answers = random_answers()
    found = pairwise(DISTANCES[name], answers)
    assert np.array_equal(found, found.T)
    for row in range(4):
        for column in range(4):
            alone = DISTANCES[name](answers[row].double(), answers[column].double()[None]).item()
            assert found[row, column] == pytest.approx(alone, abs=1e-12)


def test_scores_of_membership() -> None:
    answers = logs([0.5, 0.5], [0.1, 0.9])
    assert loss_scores(answers, torch.tensor([0, 1])).tolist() == pytest.approx([math.log(0.5), math.log(0.9)])
    moved = logs([0.5, 0.5], [0.4, 0.6])
    assert shift_scores(answers, moved).tolist() == pytest.approx([0, 0.3 * math.sqrt(2)])


# Groups


def path(count: int, both_ways: bool = True) -> Graph:
    forth = torch.stack([torch.arange(count - 1), torch.arange(1, count)])
    edges = torch.cat([forth, forth.flip(0)], dim=1) if both_ways else forth
    return Graph(torch.zeros(count, 1), torch.zeros(count, dtype=torch.int64), edges, torch.arange(count) + 100, 1)


@pytest.mark.parametrize("both_ways", [True, False])
def test_groups_of_a_path(both_ways: bool) -> None:
    found = make_groups(path(8, both_ways), torch.tensor([102]), torch.tensor([7, 9]))
    assert {name: ids.tolist() for name, ids in found.items()} == {
        "forgotten": [102],
        "hop 1": [101, 103],
        "hop 2": [100, 104],
        "hop 3": [105],
        "rest": [106, 107],
        "test": [7, 9],
    }


def test_the_nearest_forgotten_node_counts_and_empty_groups_are_left_out() -> None:
    found = make_groups(path(7), torch.tensor([100, 105]), torch.tensor([7]))
    assert list(found) == ["forgotten", "hop 1", "hop 2", "test"]
