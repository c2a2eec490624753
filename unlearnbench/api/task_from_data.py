"""A task made from the user's own graph, by the rules for graphs in files."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from unlearnbench.api.own_network import OwnNetwork, check_outputs
from unlearnbench.api.session import name_of
from unlearnbench.component import Spec
from unlearnbench.datasets.base import ONE_WAY, edge_statistics, little_seen
from unlearnbench.datasets.own.arrays import Features
from unlearnbench.datasets.own.file import File
from unlearnbench.errors import UsageError
from unlearnbench.graph import Graph, Split
from unlearnbench.protocol import Setting, protocol
from unlearnbench.registry.brackets import Bracket
from unlearnbench.registry.loading import load_and_report
from unlearnbench.registry.requirements import check_requirements
from unlearnbench.registry.resolve import resolve
from unlearnbench.running.cell import identity_of
from unlearnbench.running.config import make_config
from unlearnbench.running.device import choose_device
from unlearnbench.running.edge_weights import check_edge_weights
from unlearnbench.running.lookup import chosen_models
from unlearnbench.task import Task, surroundings

_SILENCE = 'warnings.filterwarnings("ignore", "task_from_data") silences this.'


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class OwnTask(Task):
    """A task made from the user's own graph, with what `Method` needs and an unlearner never sees.

    Args:
        full_graph: The graph with all nodes, on the CPU.
        split: Its training, validation and test nodes.
        dataset: How the graph was read.
        base_seed: The seed that was chosen.
        repetition: Which folds and random streams.
    """

    full_graph: Graph = field(repr=False)
    split: Split = field(repr=False)
    dataset: Spec = field(repr=False)
    base_seed: int
    repetition: int

    def __repr__(self) -> str:
        nodes = f"{self.graph.num_nodes} of {self.full_graph.num_nodes} nodes train"
        sizes = f"{self.graph.num_features} features, {self.graph.num_classes} classes"
        return f"OwnTask({nodes}, {sizes}, model {self.model.label}, {self.setting}, {self.device})"

    @property
    def setting(self) -> Setting:
        """Whether training sees nodes that are no training nodes."""
        return "inductive" if self.surroundings is None else "transductive"

    @property
    def unlabelled(self) -> Tensor | None:
        """The nodes that training sees without their labels; None if it sees no others than its own."""
        return protocol.unlabelled(self.full_graph, self.split.train, self.setting)

    def bare(self) -> Task:
        """Return the plain task that an unlearner gets."""
        return Task(self.graph, self.model, self.training, self.device, self.seed, surroundings=self.surroundings)


def task_from_data(
    data: Any,
    *,
    model: Any = "gcn",
    epochs: int | None = None,
    lr: float | None = None,
    weight_decay: float | None = None,
    seed: int = 0,
    repetition: int = 0,
    split: int | Literal["folds"] | None = None,
    features: Features = "given",
    undirected: bool = False,
    weighted: bool = False,
    device: str | torch.device = "cpu",
    setting: Setting = "inductive",
) -> OwnTask:
    """Make a task from your own graph, outside any benchmark; fit `unlearnbench.method` to it.

    The graph passes the checks of `file:PATH` (docs/datasets.md), and the task equals, bit for bit,
    the one that `run` makes from the same graph in a file. What is ignored (`edge_attr`, and `edge_weight` unless
    `weighted`) or assumed (edges in one direction are directed) is a warning.

    Args:
        data: A PyG `Data`, or a dictionary of tensors: `edge_index`, `y`, `x`, and optionally
            `edge_weight`, `ids` (else 0..n-1), `train_mask`, `val_mask`, `test_mask`, `num_classes`. Copied.
        model: The base model: a bracket, `gcn[hidden=16]`; a class of this session; or a `torch.nn.Module` with
            `forward(x, edge_index)` that returns logits. Each member is a copy that `reset_parameters` initialises
            anew, or what a function without arguments makes, given instead of the module.
        epochs: Epochs of training; None: 100.
        lr: Learning rate; None: 0.01.
        weight_decay: L2 penalty; None: 0.0005.
        seed: What every other seed is derived from.
        repetition: Which random streams; without masks also which of the ten folds are tested.
        split: Which of several splits in the masks; `folds`: ten folds instead of the masks.
        features: The data's, the number of edges that end in a node, or 1 for all.
        undirected: Add the reverse of every edge and drop duplicates.
        weighted: Use `edge_weight`; only models and methods that take weights can then be used.
        device: `auto`, `cpu`, `cuda` or `cuda:INDEX`.
        setting: Whether training sees its training nodes alone, or passes messages over all nodes and sees no other
            labels: `transductive`.

    Raises:
        DataError: The data breaks a rule; names the rule and the first place.
        UsageError: An unknown model, a setting out of range, no such device or split.
    """
    values = {"training.lr": lr, "training.weight_decay": weight_decay, "seed": seed}
    assigned = {key: value for key, value in values.items() if value is not None}
    settings = {
        "models": [name_of(model, "model")],
        "seeds": [repetition],
        "split": split,
        "device": str(device),
        "epochs": epochs,
        "setting": setting,
    }
    config = make_config({**settings, "set": assigned}, "unlearnbench.task_from_data")
    catalogue = load_and_report()
    where = choose_device(config.device)
    (chosen,) = chosen_models(config, catalogue)
    check_requirements([chosen])
    flags = {"undirected": undirected, "weighted": weighted}
    options: dict[str, str | Bracket] = {
        "features": features,
        **{key: str(flag).lower() for key, flag in flags.items()},
    }
    if split is not None:
        options["split"] = str(split)
    dataset = resolve(catalogue, "dataset", Bracket("file", options))
    reader, name, base_seed = File(dataset.params), identity_of(dataset), config.base_seed()
    graph = reader.of_value(data)
    for note in _assumptions(reader, graph):
        warnings.warn(f"task_from_data: {note}", stacklevel=2)
    check_edge_weights(graph, "the data", chosen)
    try:
        parts = protocol.split(graph, base_seed, name, repetition)
    except UsageError as error:
        raise UsageError(f"Dataset data: {error.message}", error.hint) from None
    note = little_seen(graph, parts.train) if config.setting == "inductive" else ""
    if note:
        remedy = f'setting="transductive" passes messages over all nodes and hides labels alone. {_SILENCE}'
        warnings.warn(f"task_from_data: {note}; {remedy}", stacklevel=2)
    training_graph = graph.induced(parts.train).to(where)
    if issubclass(chosen.cls, OwnNetwork):
        check_outputs(chosen.cls.make().to(where), training_graph)
    return OwnTask(
        training_graph,
        chosen,
        config.training_settings(),
        where,
        protocol.task_seed(base_seed, name, repetition),
        full_graph=graph,
        split=parts,
        dataset=dataset,
        base_seed=base_seed,
        repetition=repetition,
        surroundings=surroundings(graph, protocol.unlabelled(graph, parts.train, config.setting), where),
    )


def _assumptions(reader: File, graph: Graph) -> Iterator[str]:
    """Yield what was ignored or assumed, and what to do about it; a run prints the same."""
    for note in reader.notes:
        told, is_left_out = note.replace("=true", "=True"), note.startswith("ignored")
        yield f"{told} {'A dictionary of the tensors to be used leaves nothing out; ' if is_left_out else ''}{_SILENCE}"
    kinds = edge_statistics(graph)
    if kinds["duplicates"]:
        yield f"{kinds['duplicates']} edges repeat others and count again; undirected=True drops them. {_SILENCE}"
    if kinds["directed"]:
        yield f"{ONE_WAY.replace('=true', '=True')} {_SILENCE}"
