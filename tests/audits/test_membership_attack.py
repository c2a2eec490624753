"""The attacks on membership and their numbers, against values by hand, slow versions and simulation."""

from __future__ import annotations

import math

import pytest
import torch
from scipy.optimize import brentq
from scipy.stats import binom, norm
from scipy.stats import t as student

from unlearnbench.audits.membership.attack import (
    GRAPH,
    NODE,
    POPULATION,
    Attacked,
    attack,
    attack_scores,
    epsilon_bound,
    log_ratios,
    measured,
    threshold,
)
from unlearnbench.audits.membership.gate import LEAK, NOOP, OVER, detectable_area, gate, largest_bound, p_value
from unlearnbench.audits.membership.shadows import draw_presence

ALWAYS = torch.tensor([[True], [True], [False], [False], [True]])


def normals(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_the_ratio_by_hand() -> None:
    # With the node 1 and 3, without it -3 and -1: means 2 and -2, variances 2. The density of the next value with one
    # degree of freedom and the scale sqrt(2 * 3 / 2) is proportional to 1 / (1 + distance^2 / 3).
    values = torch.tensor([[1.0], [3.0], [-3.0], [-1.0], [2.0]], dtype=torch.float64)
    assert log_ratios(values, ALWAYS, references=4)[4].item() == pytest.approx(math.log(1 + 16 / 3))


@pytest.mark.parametrize("references", [None, 12])
def test_the_ratios_are_those_of_a_slow_version(references: int | None) -> None:
    values, present = 5 + normals(24, 7), draw_presence(24, 7, torch.Generator().manual_seed(1))
    found = log_ratios(values, present, references)
    known_present = present[:references]
    fewest = torch.minimum(known_present.sum(dim=0), (~known_present).sum(dim=0)).tolist()
    for pipeline in range(24):
        for node in range(7):
            densities = []
            for side in (True, False):
                known = [
                    float(values[other, node])
                    for other in range(24 if references is None else references)
                    if bool(present[other, node]) is side and (references is not None or other != pipeline)
                ]
                mean = sum(known) / len(known)
                variance = sum((value - mean) ** 2 for value in known) / (len(known) - 1)
                scale = math.sqrt(variance * (1 + 1 / fewest[node]))
                densities.append(student.logpdf(float(values[pipeline, node]), fewest[node] - 1, mean, scale))
            assert found[pipeline, node].item() == pytest.approx(densities[0] - densities[1])


def test_a_constant_prediction_tells_nothing() -> None:
    present = draw_presence(16, 5, torch.Generator().manual_seed(0))
    found = attack({"own": torch.ones(16, 5, dtype=torch.float64), "neighbours": torch.zeros(16, 5).double()}, present)
    # However many pipelines are on either side: their numbers are known to every attacker and no evidence.
    assert [found[attacker].area for attacker in (NODE, GRAPH, POPULATION)] == pytest.approx([0.5] * 3)
    assert found[NODE].epsilon == 0


def test_the_graph_aware_attacker_adds_the_neighbours() -> None:
    present = draw_presence(16, 6, torch.Generator().manual_seed(0))
    own, near = normals(16, 6), normals(16, 6, seed=1)
    seen = {"own": own, "neighbours": near}
    assert torch.equal(attack_scores(GRAPH, seen, present), log_ratios(own, present) + log_ratios(near, present))
    assert torch.equal(attack_scores(NODE, seen, present), log_ratios(own, present))
    assert torch.equal(attack_scores(POPULATION, seen, present), own)


def test_a_leak_in_the_neighbours_alone_is_seen_by_the_graph_aware_attacker_alone() -> None:
    present = draw_presence(32, 30, torch.Generator().manual_seed(0))
    found = attack({"own": normals(32, 30), "neighbours": normals(32, 30, seed=1) + 2 * present}, present)
    assert found[GRAPH].area > 0.8
    assert abs(found[NODE].area - 0.5) < 3 * found[NODE].error


def test_a_difference_of_known_size_has_the_area_of_theory() -> None:
    # Nodes differ far more from each other than a node's presence changes it: only shadows help.
    present = draw_presence(64, 100, torch.Generator().manual_seed(0))
    values = 5 * normals(1, 100) + normals(64, 100, seed=1) + 1.5 * present
    found = attack({"own": values, "neighbours": torch.zeros_like(values)}, present)
    ideal = norm.cdf(1.5 / math.sqrt(2))
    assert ideal - 0.06 < found[NODE].area < ideal + 0.01
    assert found[POPULATION].area < 0.6
    assert found[NODE].epsilon > 1.5
    rates = {rate: 1 - norm.cdf(norm.isf(rate) - 1.5) for rate in (0.01, 0.001)}
    for rate, ideal in rates.items():
        assert found[NODE].rates[rate].low < ideal * 1.2
        assert found[NODE].rates[rate].high > ideal * 0.6


@pytest.mark.slow
def test_where_presence_changes_nothing_intervals_hold_and_no_epsilon_is_shown() -> None:
    found: dict[str, list[Attacked]] = {NODE: [], GRAPH: [], POPULATION: []}
    for seed in range(60):
        present = draw_presence(32, 20, torch.Generator().manual_seed(seed))
        # Nodes differ, pipelines differ, nothing depends on presence.
        seen = {
            what: 3 * normals(1, 20, seed=1000 + seed)
            + normals(32, 20, seed=start + seed)
            + normals(32, 1, seed=4000 + seed) / 2
            for what, start in (("own", 2000), ("neighbours", 3000))
        }
        for attacker, one in attack(seen, present).items():
            found[attacker].append(one)
    for runs in found.values():
        areas, errors = (torch.tensor([getattr(one, name) for one in runs]) for name in ("area", "error"))
        assert abs(float(areas.mean()) - 0.5) < 0.02
        assert 0.7 < float(areas.std() / errors.mean()) < 1.35
        assert sum(one.epsilon > 0 for one in runs) <= 6


def test_rates_and_their_exact_intervals() -> None:
    present = torch.zeros(4, 100, dtype=torch.bool)
    present[:2] = True
    scores = torch.zeros(4, 100, dtype=torch.float64)
    scores[0, :30] = 1
    found = measured(scores, present, 0, 0)
    # 200 pairs without the node: 1 % are two of them, .1 % is none.
    assert list(found.rates) == [0.01]
    rate = found.rates[0.01]
    assert rate.value == pytest.approx(0.15)
    # Clopper and Pearson: as many or more, and as few or fewer, with probability .025 each.
    assert binom.sf(29, 200, rate.low) == pytest.approx(0.025)
    assert binom.cdf(30, 200, rate.high) == pytest.approx(0.025)


def test_the_threshold_lets_no_more_pass_than_the_rate() -> None:
    scores, present = torch.arange(200.0)[:, None], torch.zeros(200, 1, dtype=torch.bool)
    assert int((scores > threshold(scores, present, 0.01)).sum()) == 2
    tied = torch.cat([torch.zeros(190), torch.ones(10)])[:, None]
    assert int((tied > threshold(tied, present, 0.01)).sum()) == 0


@pytest.mark.parametrize(("guesses", "right"), [(20, 20), (50, 40), (200, 150)])
def test_the_bound_is_where_the_guesses_become_improbable(guesses: int, right: int) -> None:
    def too_many(epsilon: float) -> float:
        return binom.sf(right - 1, guesses, math.exp(epsilon) / (1 + math.exp(epsilon))) - 0.05

    assert epsilon_bound(guesses, right) == pytest.approx(brentq(too_many, 0, 20))


def test_the_bound_is_zero_where_guesses_are_no_better_than_a_coin() -> None:
    assert [epsilon_bound(*one) for one in ((0, 0), (10, 0), (100, 50), (5, 3))] == [0, 0, 0, 0]
    assert largest_bound(100) == pytest.approx(math.log(0.05 ** (1 / 100) / (1 - 0.05 ** (1 / 100))))


# The gate


def areas(retrain: float = 0.5, noop: float = 0.8, leak: float = 0.65, over: float = 0.9) -> dict[str, Attacked]:
    named = {"retrain": retrain, NOOP: noop, LEAK: leak, OVER: over}
    return {name: Attacked(area, 0.01, {}, 0.0, (0, 0)) for name, area in named.items()}


def test_an_attacker_that_ranks_the_controls_rightly_is_valid() -> None:
    assert gate(areas())["valid"]
    assert gate(areas())["reason"] == ""


@pytest.mark.parametrize(
    ("failing", "flag"),
    [
        ({"noop": 0.51, "leak": 0.505}, "noop_detected"),
        ({"leak": 0.51}, "leak_detected"),
        ({"over": 0.4}, "over_forget_detected"),
        ({"leak": 0.85}, "follows_k"),
    ],
)
def test_an_attacker_that_misses_a_control_is_not(failing: dict[str, float], flag: str) -> None:
    judgement = gate(areas(**failing))
    assert not judgement[flag]
    assert not judgement["valid"]
    assert judgement["reason"].endswith(".")


def test_p_values_and_power() -> None:
    one, other = areas()["retrain"], areas(retrain=0.53)["retrain"]
    assert p_value(other, one) == pytest.approx(norm.sf(0.03 / math.hypot(0.01, 0.01)))
    assert p_value(other, None) == pytest.approx(norm.sf(3))
    assert p_value(one, one) == 0.5
    at = detectable_area(one, tests=1)
    # At this area four of five audits have a p-value below .01.
    assert norm.sf(norm.isf(0.01) - (at - 0.5) / (0.01 * math.sqrt(2))) == pytest.approx(0.8)
