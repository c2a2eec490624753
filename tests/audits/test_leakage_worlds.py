"""Who is absent where, and what of it reaches the attacker."""

from __future__ import annotations

import pytest
import torch

from unlearnbench.audits.leakage import worlds as worlds_of
from unlearnbench.audits.leakage.features import FEATURES, undirected
from unlearnbench.audits.leakage.stability import rand_index, stability
from unlearnbench.testing.graphs import toy_graph

GRAPH = toy_graph(num_nodes=150, edges=300)
EDGES = undirected(GRAPH.edge_index, 150)


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def drawn(together: bool = True, count: int = 6, wanted: int = 60) -> worlds_of.Worlds:
    return worlds_of.draw_worlds(EDGES, 150, wanted, count, 5, together, rng())


def test_targets_have_two_neighbours_and_none_of_their_group_is_one() -> None:
    worlds = drawn()
    assert len(torch.unique(worlds.targets)) == 60
    assert bool((torch.bincount(EDGES[0])[worlds.targets] >= 2).all())
    group = torch.full((150,), -1)
    group[worlds.targets] = worlds.group
    a, b = group[EDGES]
    assert not bool(((a == b) & (a >= 0)).any())
    assert int(worlds.group.max()) > 0
    assert len(drawn(wanted=10**6).targets) == int((torch.bincount(EDGES[0], minlength=150) >= 2).sum())


def test_a_target_of_its_own_group_is_alone_in_its_worlds() -> None:
    worlds = drawn(together=False)
    assert worlds.group.tolist() == list(range(60))
    assert len(torch.unique(worlds.world())) == 60 * 6


def test_of_two_worlds_each_target_is_in_one_and_halves_of_each_fold_are_in_each() -> None:
    group, fold = torch.zeros(43, dtype=torch.int64), torch.arange(43) % 5
    present = worlds_of.draw_present(group, fold, 8, rng())
    assert bool((present[:, 0::2] ^ present[:, 1::2]).all())
    for number in range(5):
        counts = present[fold == number].sum(dim=0)
        half = int((fold == number).sum()) / 2
        assert bool(((counts - half).abs() <= 0.5).all())
    assert len(torch.unique(present[:, ::2], dim=1).t()) == 4
    first = torch.stack([worlds_of.draw_present(group, fold, 2, rng(seed))[:, 0] for seed in range(300)])
    assert bool(((first.double().mean(dim=0) - 0.5).abs() < 0.15).all())


@pytest.mark.parametrize("together", [True, False])
def test_the_attacker_sees_no_target_and_only_the_absent_were_absent(together: bool) -> None:
    worlds = drawn(together, count=2, wanted=20)
    asked: dict[int, torch.Tensor] = {}

    def deal(absent: torch.Tensor, number: int) -> torch.Tensor:
        asked[number] = absent
        shard = torch.randint(4, (150,), generator=rng(number))
        shard[absent] = -1
        return shard

    def deal_otherwise(absent: torch.Tensor, number: int) -> torch.Tensor:
        shard = deal(absent, number)
        there = worlds.targets[~torch.isin(worlds.targets, absent) & (worlds.group == number // 2)]
        shard[there] = (shard[there] + 1) % 4
        return shard

    seen, planted = worlds_of.see(GRAPH, worlds, deal, 4, 3, 0.5, rng(1))
    assert seen.features.shape == (20, 2, len(FEATURES))
    for number, absent in asked.items():
        group, world = divmod(number, 2)
        expected = worlds.targets[(worlds.group == group) & ~worlds.present[:, world]]
        assert set(absent.tolist()) == set(expected.tolist())
    assert len(asked) == 2 * (int(worlds.group.max()) + 1)
    # Targets that were there may have been in any shard: it is taken out before anyone looks.
    again, _ = worlds_of.see(GRAPH, worlds, deal_otherwise, 4, 3, 0.5, rng(1))
    assert torch.equal(seen.features, again.features)
    assert torch.equal(seen.together, again.together)
    # Who holds both versions sees which shard lost the target, and where it never was, that another node was lost.
    moved = (seen.hit != again.hit).any(dim=2)
    assert bool(moved[worlds.present].any())
    assert not bool(moved[~worlds.present].any())
    # A planted leak is where the target is present, nowhere else when targets are alone.
    changed = (planted.features != seen.features).any(dim=2) | (planted.together != seen.together).any(dim=2)
    assert bool(changed[worlds.present].any())
    if not together:
        assert not bool(changed[~worlds.present].any())


def test_gathered_neighbours_are_in_the_shard_of_their_first() -> None:
    shard = torch.tensor([-1, -1, 0, 1, 2, 1, 0])
    neighbours = torch.tensor([[0, 0, 0, 1, 1], [2, 3, 4, 5, 6]])
    assert worlds_of.gathered(shard, neighbours, torch.tensor([True, False])).tolist() == [-1, -1, 0, 0, 0, 1, 0]
    assert worlds_of.gathered(shard, neighbours, torch.tensor([False, True])).tolist() == [-1, -1, 0, 1, 2, 1, 1]


def test_partitions_of_seeds_and_of_fewer_nodes_are_compared() -> None:
    def by_seed(absent: torch.Tensor, number: int) -> torch.Tensor:
        """The same under one seed but for the loss of node 7."""
        shard = torch.randint(4, (150,), generator=rng(number + (1000 if 7 in absent.tolist() else 0)))
        shard[absent] = -1
        return shard

    found = stability(GRAPH, torch.tensor([7, 8, 9, 10]), torch.tensor([20, 21]), by_seed, 4, rng())
    assert float(found.same_seed_moves[0]) == pytest.approx(1, abs=0.1)
    assert found.same_seed_moves[1:].tolist() == [0, 0, 0]
    assert found.rand_index["same seed, one node less"].tolist() == pytest.approx((1 - found.same_seed_moves).tolist())
    assert found.rand_index["same seed, 2 nodes less"].tolist() == [1] * 4
    assert len(found.rand_index["two seeds"]) == 2
    assert float(found.rand_index["two seeds"].abs().max()) < 0.1
    assert found.together.shape == (4, 2)
    # Kept and fresh are the same partitions here.
    assert found.spread[:4].tolist() == found.spread[4:].tolist()
    assert found.sizes["kept"] == found.sizes["fresh"]
    assert found.sizes["forgotten"] == 2


def test_the_rand_index_is_over_nodes_that_both_hold_whatever_shards_are_called() -> None:
    assert rand_index(torch.tensor([0, 0, 1, 1, -1, 0]), torch.tensor([1, 1, 0, 0, 1, -1])) == 1
    assert rand_index(torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 0, 1])) == pytest.approx(-0.5)
