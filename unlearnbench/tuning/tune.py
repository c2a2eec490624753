"""Tune methods: the same number of trials for each, on every graph and with every base model."""

from __future__ import annotations

import gc
import itertools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from unlearnbench.component import Spec, canonical_json
from unlearnbench.datasets.base import data_root
from unlearnbench.errors import NothingMatchedError, UsageError
from unlearnbench.graph import Graph
from unlearnbench.measure.provenance import provenance
from unlearnbench.registry.catalogue import Catalogue
from unlearnbench.registry.requirements import check_requirements
from unlearnbench.registry.resolve import resolve
from unlearnbench.running import lookup
from unlearnbench.running.cell import identity_of, key_of
from unlearnbench.running.config import RunConfig
from unlearnbench.running.device import choose_device
from unlearnbench.running.edge_weights import check_edge_weights
from unlearnbench.running.lookup import REFERENCE
from unlearnbench.running.tuned import Point, at_point
from unlearnbench.task import Training
from unlearnbench.tuning.choice import Study, choose
from unlearnbench.tuning.objective import Bench, Effort, Outcome
from unlearnbench.tuning.space import is_posthoc, points, space_of
from unlearnbench.tuning.studies import Studies, Trial, run_trial

VERSION = 1
"""Raised when the same settings would give other trials."""
OnTrial = Callable[[Study, Trial, bool], None]


@dataclass(frozen=True)
class Tuning:
    """What is tuned, on what, and how much.

    Args:
        catalogue: Where components are looked up.
        methods: With their defaults, Retrain first.
        models: Base models.
        datasets: Datasets.
        graphs: Their graphs, by label.
        training: The recipe that tuning starts from.
        effort: What a trial costs.
        trials: How many each method gets.
        device: Where methods compute.
        studies: Where trials are kept.
        on_trial: Called with each trial, and whether it was there already.
    """

    catalogue: Catalogue
    methods: Sequence[Spec]
    models: Sequence[Spec]
    datasets: Sequence[Spec]
    graphs: Mapping[str, Graph]
    training: Training
    effort: Effort
    trials: int
    device: torch.device
    studies: Studies
    on_trial: OnTrial = field(default=lambda study, trial, was_there: None)

    def run(self) -> list[Study]:
        """Make the trials that are missing, and return all studies.

        Raises:
            UsageError: A method has nothing to tune, or fits no base model; nothing was started.
        """
        check(self.methods, self.models)
        done = []
        for model in self.models:
            for dataset in self.datasets:
                done += list(self._on_graph(model, dataset))
                gc.collect()
        return done

    @property
    def without_values(self) -> str:
        """The one graph that is tuned on, if it is split by folds: it will have no values itself; else empty."""
        label = self.datasets[0].label
        return label if len(self.datasets) == 1 and self.graphs[label].split is None else ""

    def versions(self) -> dict[str, str]:
        """Return what else the trials depend on, for the file of values."""
        origin = provenance()
        packages = origin["packages"]
        return {name: str(packages.get(name, "")) for name in ("unlearnbench", "torch")} | {"device": self.device.type}

    def _on_graph(self, model: Spec, dataset: Spec) -> Iterator[Study]:
        graph = self.graphs[dataset.label]
        bench = Bench(dataset, graph, model, self.effort, self.device, self._find)
        recipe = self.training
        for method in self.methods:
            if not fits(method, model):
                continue
            # Post-hoc methods change the network that Retrain's best recipe on this graph trains.
            study = self._study(bench, method, recipe if is_posthoc(method) else self.training)
            if method.name == REFERENCE:
                best = choose([study], margin=0.0)
                if best is not None:
                    recipe = at_point(self.catalogue, method, self.training, best.point)[1]
            yield study

    def _study(self, bench: Bench, method: Spec, training: Training) -> Study:
        space, graph = space_of(method), identity_of(bench.dataset)
        name = self._name(bench, method, training)
        study = Study(method, bench.model, graph, bench.graph.split is not None, trials := {})
        there = self.studies.trials(name)

        def judge(point: Point) -> Outcome:
            chosen, recipe = at_point(self.catalogue, method, training, point)
            return bench.distance(chosen, recipe) if is_posthoc(method) else bench.validation(chosen, recipe)

        for number, point in enumerate(points(method, self.effort.seed, self.trials)):
            trial = there.get(number)
            if trial is None:
                trial = run_trial(number, point, judge)
                self.studies.add(name, trial, space)
            trials[number] = trial
            self.on_trial(study, trial, number in there)
        return study

    def _name(self, bench: Bench, method: Spec, training: Training) -> str:
        """Name a study by all that its trials depend on, so that others never answer for them."""
        content = {
            "version": VERSION,
            "method": method.canonical(),
            "released": dict(method.cls.released),
            "space": {name: [values.low, values.high, values.log] for name, values in space_of(method).items()},
            "model": bench.model.canonical(),
            "dataset": {**bench.dataset.canonical(), "sha256": bench.graph.checksum()},
            "training": training.canonical(),
            "effort": self.effort.canonical(),
            "device": self.device.type,
        }
        return canonical_json([method.label, bench.model.label, bench.dataset.label, key_of(content)])

    def _find(self, bracket: str) -> Spec:
        return resolve(self.catalogue, "unlearner", bracket)


def make_tuning(config: RunConfig, catalogue: Catalogue, effort: Effort, trials: int, on_trial: OnTrial) -> Tuning:
    """Look everything up and check it, before any training.

    Args:
        config: Methods, base models, datasets, the folder, device and threads.
        catalogue: Where names are looked up.
        effort: What a trial costs.
        trials: How many each method gets.
        on_trial: See `Tuning`.

    Raises:
        UsageError: An unknown name, a method that has nothing to tune or fits no base model, optuna is missing.
        DataError: A dataset cannot be had.
    """
    methods, models = lookup.chosen_methods(config, catalogue), lookup.chosen_models(config, catalogue)
    datasets = lookup.without_duplicates(lookup.chosen_datasets(config, catalogue))
    if not (methods and models and datasets):
        raise NothingMatchedError("There is nothing to tune.", "Name at least one method, dataset and model.")
    check_requirements([*datasets, *models, *methods])
    check(methods, models)
    studies = Studies(config.out)
    graphs, notices = lookup.load_graphs(datasets, data_root(config.data_root), config.offline)
    for notice in notices:
        print(f"note: {notice}", file=sys.stderr)
    for dataset, model, method in itertools.product(datasets, models, methods):
        check_edge_weights(graphs[dataset.label], dataset.label, model, method)
    device = choose_device(config.device)
    torch.set_num_threads(config.threads)
    recipe = config.training_settings()
    return Tuning(catalogue, methods, models, datasets, graphs, recipe, effort, trials, device, studies, on_trial)


def fits(method: Spec, model: Spec) -> bool:
    """Whether a method supports a base model."""
    supported = method.innermost().cls.models
    return supported is None or model.name in supported


def check(methods: Sequence[Spec], models: Sequence[Spec]) -> None:
    """Check that every method has something to tune and fits a base model.

    Raises:
        UsageError: One does not; names it.
    """
    for method in methods:
        space_of(method)
        if not any(fits(method, model) for model in models):
            raise UsageError(
                f"{method.label} cannot be used with the model {' or '.join(model.label for model in models)}.",
                f"Add `models` {','.join(sorted(method.innermost().cls.models))}, or leave {method.label} out.",
            )
