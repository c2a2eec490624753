"""A task made of one's own graph, by the rules that hold for graphs in files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from unlearnbench import protocol
from unlearnbench.brackets import Bracket
from unlearnbench.cells import identity_of
from unlearnbench.component import Spec
from unlearnbench.config import make_config
from unlearnbench.datasets.entry import Features
from unlearnbench.datasets.file import File
from unlearnbench.errors import UsageError
from unlearnbench.graph import Graph, Split
from unlearnbench.inputs import chosen_models
from unlearnbench.needs import check_needs
from unlearnbench.planning import choose_device
from unlearnbench.plugins import load_catalogue, report_problems
from unlearnbench.resolve import resolve
from unlearnbench.task import Task


@dataclass(frozen=True, eq=False, kw_only=True)
class OwnTask(Task):
    """A task made of one's own graph, with what `Method` needs beside it and a method never gets.

    Args:
        whole: The whole graph, on the CPU.
        split: Its parts.
        dataset: How the graph was read.
        base_seed: The seed that was chosen.
        repetition: Which folds and chance.
    """

    whole: Graph = field(repr=False)
    split: Split = field(repr=False)
    dataset: Spec = field(repr=False)
    base_seed: int
    repetition: int

    def bare(self) -> Task:
        """Give the task as a method gets it."""
        return Task(self.graph, self.model, self.training, self.device, self.seed)


def task_from_data(
    data: Any,
    model: str,
    epochs: int | None,
    lr: float | None,
    weight_decay: float | None,
    seed: int,
    repetition: int,
    split: int | Literal["folds"] | None,
    features: Features,
    undirected: bool,
    device: str,
) -> OwnTask:
    """Make a task of one's own graph: see `Task.from_data`."""
    values = {"training.lr": lr, "training.weight_decay": weight_decay, "seed": seed}
    settings: dict[str, Any] = {
        "models": [model],
        "seeds": [repetition],
        "split": split,
        "device": device,
        "set": {key: value for key, value in values.items() if value is not None},
    }
    config = make_config(settings | ({} if epochs is None else {"epochs": epochs}), "Task.from_data")
    catalogue = load_catalogue()
    report_problems(catalogue)
    where = choose_device(config.device)
    (chosen,) = chosen_models(config, catalogue)
    check_needs([chosen])
    ways: dict[str, str | Bracket] = {"features": features, "undirected": str(undirected).lower()}
    if split is not None:
        ways["split"] = str(split)
    dataset = resolve(catalogue, "dataset", Bracket("file", ways))
    graph = File(dataset.params).of_value(data)
    name = identity_of(dataset)
    try:
        parts = protocol.split(graph, config.base_seed(), name, repetition)
    except UsageError as error:
        raise UsageError(f"Dataset data: {error.message}", error.hint) from None
    return OwnTask(
        graph.induced(parts.train).to(where),
        chosen,
        config.training_settings(),
        where,
        protocol.task_seed(config.base_seed(), name, repetition),
        whole=graph,
        split=parts,
        dataset=dataset,
        base_seed=config.base_seed(),
        repetition=repetition,
    )
