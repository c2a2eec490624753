"""The audit `partition-leakage`: whether a kept partition reveals that a node was there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from pydantic import Field, field_validator
from torch import Tensor

from unlearnbench.audits.base import Audit, Finding, Score
from unlearnbench.audits.leakage import attack
from unlearnbench.audits.leakage.features import FEATURES, undirected
from unlearnbench.audits.leakage.likelihood import RatioAttacker
from unlearnbench.audits.leakage.stability import Stability, stability
from unlearnbench.audits.leakage.worlds import Deal, Seen, Worlds, draw_present, draw_worlds, see
from unlearnbench.audits.subject import Subject
from unlearnbench.component import ComponentParams, Spec
from unlearnbench.protocol import Forget, Request
from unlearnbench.protocol.drawing import draw
from unlearnbench.protocol.requests import rounded_half_up
from unlearnbench.unlearning.partitioning import checked_partition

SIDE = "partition-leakage"
FOLDS = 5
# Fewer targets than this cannot be split into folds that hold both worlds twice.
FEWEST = 2 * FOLDS
# Fewer worlds are a poor estimate of what is usual for a target.
FEWEST_WORLDS = 8
PER_TARGET, BOTH_VERSIONS = "per target", "per target, both versions"
# The former attacks, for comparison.
FORMER, CALIBRATED = "independent seeds", "independent seeds, calibrated"
# Share of the planted leak, which the attack must find for a negative result to be informative.
PLANTED = 0.25
ALPHA = 0.05
# Share of all nodes in the request for stability.
FEW = 0.005
RATES = (0.01, 0.1)
FEW_ALARMS = RATES[0]
DRAWS_OF_TARGETS = 1000


class PartitionLeakage(Audit):
    """Attacks the kept partition: infers whether a node was there when it was made.

    The attacker knows features, labels and edges of all nodes and of the node itself, sees the
    kept partition without it, and knows the method but not the seed. A second one compares the
    versions before and after the request, and so knows which shard lost a node.
    """

    name = "partition-leakage"
    version = 2
    summary = "Does a kept partition tell that a forgotten node was there?"
    reference = 'ours; asked for by Zhang et al., GraphRevoker, WWW 2024, section "Limitations"'
    question: ClassVar[str] = "Does a kept partition tell that a forgotten node was there?"
    order: ClassVar[int] = 40

    class Params(ComponentParams):
        """Extent of the attack."""

        targets: int = Field(
            default=200, ge=FEWEST, description="Training nodes attacked, drawn from those with two neighbours or more."
        )
        worlds: int = Field(
            default=60, ge=2, description="Partitions that each target is attacked in, half of them made with it; even."
        )
        together: bool = Field(
            default=True, description="Targets that are no neighbours share partitions; no: each has its own."
        )
        same_seed: int = Field(
            default=25,
            ge=0,
            description="Seeds, each with a target of its own, of the same-seed attack and of stability; 0: left out.",
        )
        matched: int = Field(default=10, ge=1, description="Nodes of like degree each target is compared with.")
        draws: int = Field(default=199, ge=19, description="Draws of the randomisation test.")

        @field_validator("worlds")
        @classmethod
        def _even(cls, worlds: int) -> int:
            if worlds % 2:
                raise ValueError(f"{worlds} is odd: half of the worlds are made with the target, half without")
            return worlds

    params: Params

    def unfit(self, method: Spec) -> str:
        """Apply only to methods with a partition of more than one shard."""
        params: Any = method.innermost().params
        if not isinstance(getattr(params, "partitioner", None), Spec) or not hasattr(params, "num_shards"):
            return "it keeps no partition."
        if params.num_shards < 2:
            return "all nodes are in one shard."
        return ""

    def effort(self, method: Spec) -> Mapping[str, float]:
        """Return 0: no member is trained."""
        return {method.label: 0}

    def partitions(self, method: Spec) -> float:
        """Count the partitions attacked and those of stability; targets fall into two to four groups."""
        groups = 3 if self.params.together else self.params.targets
        return groups * self.params.worlds + 2.5 * self.params.same_seed

    def examine(self, subject: Subject) -> Finding:
        """Carry out the attacks and measure stability."""
        params, graph = self.params, subject.train_graph.to(torch.device("cpu"))
        rng = subject.task(side=SIDE)
        n, edges = graph.num_nodes, undirected(graph.edge_index, graph.num_nodes)
        worlds = draw_worlds(edges, n, params.targets, params.worlds, FOLDS, params.together, rng.generator("worlds"))
        found = len(worlds.targets)
        if found < FEWEST:
            reason = f"Only {found} training nodes have two neighbours or more, {FEWEST} are needed."
            return Finding("cannot tell", (Score("auc", "independent seeds", None, note=reason),), notes=(reason,))
        method: Any = subject.cell.method.innermost().params
        deal = dealer(subject, SIDE)
        seen, planted = see(
            graph, worlds, deal, method.num_shards, params.matched, PLANTED, rng.generator("matched and planted")
        )
        attacks = self._attacks(subject, worlds, seen, planted)
        scores = [score for one in attacks for score in one.scores]
        groups = int(worlds.group.max()) + 1
        details: dict[str, Any] = {
            "targets": found,
            "worlds": params.worlds,
            "groups": groups,
            "partitions": groups * params.worlds,
            "features": _means(seen.features, worlds.present),
            "by degree": _by_degree(attacks[0].rows, worlds, torch.bincount(edges[0], minlength=n)),
        }
        if params.same_seed:
            amount = Forget(ratio=None, count=max(1, rounded_half_up(FEW, subject.graph.num_nodes)))
            few = draw(amount, graph.ids, subject.graph.num_nodes, rng.generator("few")).ids
            measured = stability(
                graph,
                worlds.targets[: params.same_seed],
                graph.positions(few),
                dealer(subject, f"{SIDE} same seed"),
                method.num_shards,
                rng.generator("strangers"),
            )
            scores += _scores_of(measured)
            details["sizes"] = measured.sizes
        notes = []
        if found < params.targets:
            notes.append(f"Only {found} training nodes have two neighbours or more: all are targets.")
        arrays = {
            "leakage_targets": graph.ids[worlds.targets].numpy(),
            "leakage_present": worlds.present.numpy(),
            "leakage_scores": attacks[0].rows.float().numpy(),
        }
        return Finding(_verdict(attacks), tuple(scores), details, tuple(notes), arrays)

    def _attacks(self, subject: Subject, worlds: Worlds, seen: Seen, planted: Seen) -> list[_Attack]:
        """Carry out all attacks, the primary one first."""
        fold, sides = worlds.fold, (seen, planted)

        def former(features: Tensor) -> Scorer:
            rows = attack.Attacker(features.flatten(0, 1), fold.repeat_interleave(worlds.count))
            return lambda present: rows.scores(present.flatten())

        if self.params.worlds < FEWEST_WORLDS:
            return [self._attack(subject, worlds, FORMER, *(former(one.features) for one in sides))]
        centred = [one.features - one.features.mean(dim=1, keepdim=True) for one in sides]
        of_sides = zip(sides, centred, strict=True)
        after = [RatioAttacker(one.together, features, one.hit[:, :, :0], fold) for one, features in of_sides]
        both = [attacker.with_more(one.hit) for one, attacker in zip(sides, after, strict=True)]
        return [
            self._attack(subject, worlds, PER_TARGET, *(one.scores for one in after)),
            self._attack(subject, worlds, BOTH_VERSIONS, *(one.scores for one in both)),
            self._attack(subject, worlds, FORMER, *(former(one.features) for one in sides)),
            self._attack(subject, worlds, CALIBRATED, *map(former, centred)),
        ]

    def _attack(self, subject: Subject, worlds: Worlds, where: str, scorer: Scorer, control_scorer: Scorer) -> _Attack:
        rng, runs = subject.task(side=SIDE), len(worlds.targets)
        truth, target, world = (values.flatten() for values in (worlds.present, worlds.target(), worlds.world()))
        rows, control_rows = scorer(worlds.present), control_scorer(worlds.present)
        value, control = attack.area(rows, truth), attack.area(control_rows, truth)
        low, high = attack.interval(value, attack.area_error(rows, truth, target, world))
        least, _ = attack.interval(control, attack.area_error(control_rows, truth, target, world))

        def redraw(number: int) -> float:
            drawn = rng.generator("randomisation", number)
            other = draw_present(worlds.group, worlds.fold, worlds.count, drawn)
            return attack.area(scorer(other), other.flatten())

        is_former = where in (FORMER, CALIBRATED)
        # Attacks that are there for comparison take no part in the verdict, and the test takes long.
        is_tested = not is_former or self.params.worlds < FEWEST_WORLDS
        scores = [
            Score(
                "auc",
                where,
                value,
                low,
                high,
                floor=0.5,
                controls={"planted": control},
                p=attack.randomisation_p(value, redraw, self.params.draws) if is_tested else None,
                runs=runs,
                state="valid" if least > 0.5 else "cannot tell",
                note=f"{runs} targets, each in {worlds.count // 2} worlds with it and as many without.",
            )
        ]
        for rate in RATES if is_former else (FEW_ALARMS,):
            if is_former:
                drawn = rng.generator("sensitivity", where, f"{rate:g}")
                low, high = attack.sensitivity_interval(rows, truth, rate, target, DRAWS_OF_TARGETS, drawn)
                share = float(attack.sensitivity(rows, truth, rate)[0])
            else:
                exact = attack.rate_at(rows, truth, rate)
                share, low, high = exact.value, exact.low, exact.high
            at = f"{where}, {rate:.0%} false alarms"
            state = scores[0].state if is_tested else ""
            scores.append(Score("tpr", at, share, low, high, floor=rate, runs=runs, state=state))
        return _Attack(rows.view(worlds.present.shape), tuple(scores))


# Scores the worlds of all targets, float64 [T * W], if these were the labels, bool [T, W].
Scorer = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class _Attack:
    """The result of one attack: scores by target and world, float64 [T, W], and its numbers, the area first."""

    rows: Tensor
    scores: tuple[Score, ...]


def dealer(subject: Subject, side: str) -> Deal:
    """Return a function that partitions the training nodes of a cell with its method's own partitioner.

    Seeds of different sides are independent.
    """
    method: Any = subject.cell.method.innermost().params

    def deal(absent: Tensor, number: int) -> Tensor:
        task = subject.task(number, side)
        present = torch.ones(task.graph.num_nodes, dtype=torch.bool)
        present[absent] = False
        if len(absent):
            task = task.without(Request(task.graph.ids[absent.to(task.graph.ids.device)].sort().values))
        shard = torch.full((len(present),), -1, dtype=torch.int64)
        shard[present] = checked_partition(method.partitioner.build(), task, method.num_shards).cpu()
        return shard

    return deal


def _verdict(attacks: list[_Attack]) -> str:
    """Return `leaks` if an attack of the verdict is significant after Bonferroni correction; the primary one first."""
    tested = [one.scores[0] for one in attacks if one.scores[0].p is not None]
    leaking = [score.where for score in tested if score.p is not None and score.p * len(tested) <= ALPHA]
    if leaking == [BOTH_VERSIONS]:
        return "leaks with both versions"
    if leaking:
        return "leaks"
    return "no leak seen" if tested[0].state == "valid" else "cannot tell"


def _means(features: Tensor, present: Tensor) -> dict[str, list[float]]:
    """Return the mean of each feature in worlds with the target and without."""
    sides = [features[side].mean(dim=0).tolist() for side in (present, ~present)]
    return {name: [with_it, without] for name, with_it, without in zip(FEATURES, *sides, strict=True)}


def _by_degree(rows: Tensor, worlds: Worlds, degree: Tensor) -> dict[str, float]:
    """Return the area for the targets in three ranges of degree."""
    own = degree[worlds.targets]
    areas = {}
    for low, high in ((2, 2), (3, 5), (6, int(own.max()))):
        held = (own >= low) & (own <= high)
        if bool(held.any()):
            name = f"{low}" if low == high else f"{low} to {high}"
            areas[name] = attack.area(rows[held].flatten(), worlds.present[held].flatten())
    return areas


def _scores_of(measured: Stability) -> list[Score]:
    moved, runs = measured.same_seed_moves, len(measured.same_seed_moves)
    unmoved = int((moved == 0).sum())
    least, most = attack.share_interval(unmoved, runs)
    value = attack.area(torch.cat([moved, -moved]), torch.arange(2 * runs) < runs)
    note = (
        "The upper bound: who has the seed makes both partitions and sees which fits;"
        f" leaving out one node changed {runs - unmoved} of {runs} partitions."
    )
    scores = [Score("auc", "same seed", value, 1 - most**2 / 2, 1 - least**2 / 2, floor=0.5, runs=runs, note=note)]
    for where, values in measured.rand_index.items():
        low, high = attack.mean_interval(values)
        scores.append(Score("ari", where, float(values.mean()), low, high, runs=len(values)))
    near, far = measured.together.mean(dim=0).tolist()
    low, high = attack.mean_interval(measured.together[:, 0])
    controls = {"strangers of like degree": far}
    scores.append(Score("co-shard rate", "neighbours", near, low, high, controls=controls, runs=runs))
    pairs = len(measured.spread) // 2
    value = attack.area(measured.spread, torch.arange(2 * pairs) < pairs)
    note = "Sizes tell that something was deleted, not what: the largest shard less the smallest, kept or fresh."
    return [*scores, Score("auc", "spread of sizes", value, floor=0.5, runs=pairs, note=note)]
