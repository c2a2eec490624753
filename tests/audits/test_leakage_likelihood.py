"""Likelihood ratios of single targets: by hand, without the world itself, and against what no mean of targets shows."""

from __future__ import annotations

import math

import pytest
import torch

from unlearnbench.audits.leakage.attack import Attacker, area
from unlearnbench.audits.leakage.likelihood import WORLD_FOLDS, RatioAttacker


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def presence(targets: int, worlds: int) -> torch.Tensor:
    first = torch.rand(targets, worlds // 2, generator=rng(9)) < 0.5
    return torch.stack([first, ~first], dim=2).view(targets, worlds)


def attacker(together: torch.Tensor, features: torch.Tensor) -> RatioAttacker:
    return RatioAttacker(together, features, features[:, :, :0], torch.arange(len(together)) % 5)


def test_the_ratio_of_pairs_by_hand() -> None:
    # One target, one pair of nodes; of three pairs of worlds each is scored by the other two.
    present = torch.tensor([[True, False] * 3])
    together = torch.tensor([[True, False, True, False, False, False]])[:, :, None]
    found = attacker(together, torch.zeros(1, 6, 1, dtype=torch.float64)).ratios(present)[0, :, 0]
    # Known for the first pair: together in one of two worlds with the target, in none of two without.
    p, q = (1 + 1) / (2 + 2), (0 + 1) / (2 + 2)
    assert found[:2].tolist() == pytest.approx([math.log(p / q), math.log((1 - p) / (1 - q))])
    p = (2 + 1) / (2 + 2)
    assert found[4:].tolist() == pytest.approx([math.log((1 - p) / (1 - q))] * 2)


def test_the_ratio_of_features_is_that_of_normals_with_one_variance() -> None:
    present, values = presence(1, 40), torch.randn(1, 40, 1, generator=rng(), dtype=torch.float64)
    values = values - values.mean(dim=1, keepdim=True)
    found = attacker(torch.zeros(1, 40, 1, dtype=torch.bool), values).ratios(present)[0, :, 1]
    x, with_it, variance = values[0, :, 0], present[0], float(values.var()) * 1.001
    known = torch.arange(40) // 2 % WORLD_FOLDS != 0
    upper, lower = float(x[known & with_it].mean()), float(x[known & ~with_it].mean())
    expected = [((one - lower) ** 2 - (one - upper) ** 2) / 2 / variance for one in x[~known].tolist()]
    assert found[~known].tolist() == pytest.approx(expected)


def test_no_world_is_scored_by_what_saw_it_or_its_pair() -> None:
    present = presence(6, 24)
    together = torch.rand(6, 24, 5, generator=rng(1)) < 0.5
    features = torch.randn(6, 24, 3, generator=rng(2), dtype=torch.float64)
    before = attacker(together, features).ratios(present)
    turned = present.clone()
    turned[:, :2] = ~turned[:, :2]
    after = attacker(together, features).ratios(turned)
    held = torch.arange(24) // 2 % WORLD_FOLDS == 0
    assert torch.allclose(before[:, held], after[:, held])
    assert not torch.allclose(before[:, ~held], after[:, ~held])


def test_what_shows_otherwise_in_each_target_is_detected_and_noise_is_not() -> None:
    present = presence(60, 40)
    truth, fold = present.flatten(), torch.arange(60) % 5
    noise = torch.rand(60, 40, 10, generator=rng(3)) < 0.5
    # Each target has a pair of nodes that is together where it is present, another one than other targets.
    own = torch.arange(60) % 10
    telling = noise.clone()
    telling[torch.arange(60), :, own] = present
    features = torch.randn(60, 40, 3, generator=rng(4), dtype=torch.float64)
    assert area(attacker(telling, features).scores(present), truth) > 0.9
    of_all = Attacker(telling.double().flatten(0, 1), fold.repeat_interleave(40)).scores(truth)
    assert area(of_all, truth) < 0.65
    assert abs(area(attacker(noise, features).scores(present), truth) - 0.5) < 0.04


def test_attackers_with_more_features_have_the_same_ratios_and_other_scores() -> None:
    rng = torch.Generator().manual_seed(4)
    together, features, more = (torch.rand(10, 20, width, generator=rng).double() for width in (6, 3, 2))
    fold, present = torch.arange(10) % 5, torch.arange(20).expand(10, -1) % 2 == 0
    alone = RatioAttacker(together > 0.5, features, more, fold)
    first = attacker(together > 0.5, features)
    second = first.with_more(more)
    assert torch.equal(second.scores(present), alone.scores(present))
    assert second.ratios(present) is first.ratios(present)
    assert not torch.equal(second.scores(present), first.scores(present))
