"""A tuning on a small made graph, in less than a second."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.task import Training
from unlearnbench.tuning.objective import Bench, Effort
from unlearnbench.tuning.studies import Studies
from unlearnbench.tuning.tune import Tuning

CATALOGUE = load_catalogue()
GRAPH = "sbm[num_nodes=80,num_edges=250,num_features=6,num_classes=3]"
EFFORT = Effort(repetitions=1, runs=2, forget_ratio=0.1)
RECIPE = Training(epochs=15)


def spec(kind: str, bracket: str) -> Any:
    return resolve(CATALOGUE, kind, bracket)


def unlearner(bracket: str) -> Any:
    return spec("unlearner", bracket)


def graph_of(bracket: str = GRAPH) -> Any:
    return spec("dataset", bracket).build().load(Path())


def bench(graph: Any = None, effort: Effort = EFFORT) -> Bench:
    made = graph_of() if graph is None else graph
    return Bench(spec("dataset", GRAPH), made, spec("model", "gcn"), effort, torch.device("cpu"), unlearner)


def tuning(folder: Path, trials: int = 3, methods: tuple[str, ...] = ("gradient-ascent",), **more: Any) -> Tuning:
    dataset = spec("dataset", GRAPH)
    return Tuning(
        CATALOGUE,
        [unlearner(name) for name in methods],
        [spec("model", "gcn")],
        [dataset],
        {dataset.label: graph_of()},
        RECIPE,
        EFFORT,
        trials,
        torch.device("cpu"),
        Studies(folder),
        **more,
    )
