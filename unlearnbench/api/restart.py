"""A method that goes on after a restart: from the file that `Method.save` wrote, on the graph that it belongs to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from unlearnbench.api.method import Method, data_digest
from unlearnbench.api.session import name_of
from unlearnbench.api.task_from_data import OwnTask
from unlearnbench.component import canonical_json
from unlearnbench.datasets.base import load_graph
from unlearnbench.datasets.own.file import File
from unlearnbench.errors import UsageError
from unlearnbench.graph import Graph
from unlearnbench.hookspecs import SESSION
from unlearnbench.measure.digests import changed_names, digests
from unlearnbench.protocol import Forget, Request, protocol
from unlearnbench.records.states import State, load_state
from unlearnbench.registry.loading import load_and_report
from unlearnbench.registry.requirements import check_requirements
from unlearnbench.running.cell import Cell
from unlearnbench.running.cell_codec import cell_of_canonical, check_same_versions
from unlearnbench.running.device import choose_device
from unlearnbench.task import surroundings

_OF_SESSION = (
    "Name the network, model=net, with the layers and the code that it had; register classes first. The command"
    " `forget` knows installed components alone."
)


def load_method(path: str | Path, data: Any, *, model: Any = None) -> Method:
    """Go on where `Method.save` stopped: the same bits, partition and seeds, as if it had never been stopped.

    Args:
        path: The file.
        data: The graph as `task_from_data` takes it, or the path of one: as it was at first, or without what was
            forgotten, with the `ids` of its nodes. Methods without `resume` (`cgu`, `scalegun`, `graph-editor`,
            `projector`, `tally`) need it as it was at first: they are trained again and served every request again.
        model: The network, if the method was trained with one of the user's own.

    Raises:
        UsageError: The file is no such state, belongs to other data, or needs a component that is not here.
        DataError: The data break a rule.
    """
    state = load_state(path)
    if state.service is None:
        raise UsageError(f"{path} says what is deployed, not how to go on.", "Write it by `Method.save`.")
    if model is not None:
        name_of(model, "model")
    catalogue = load_and_report()
    try:
        # The requests are read apart: there may be none yet.
        rules = {**state.cell["protocol"], "forget": Forget(None, count=1).canonical()}
        cell = cell_of_canonical({**state.cell, "protocol": rules}, catalogue)
        for part in ("model", "method"):
            check_same_versions({part: state.cell[part]}, {part: cell.canonical()[part]})
    except UsageError as error:
        hint = _OF_SESSION if SESSION in canonical_json(state.cell) else error.hint
        raise UsageError(f"{path} cannot be used here: {error.message}", hint) from None
    check_requirements([cell.model, cell.method])
    graph = _read(data, cell)
    digest = data_digest(graph)
    is_original = digest == state.service["original"]
    if not is_original and digest != state.service["data"]:
        raise UsageError(
            f"{path} belongs to other data: the graph {state.service['data'][:12]}, this one is {digest[:12]}.",
            "Name the graph that it was fitted to, or that graph without what was forgotten, its nodes and edges in"
            " the same order and named by the same ids.",
        )
    # What was trained elsewhere cannot be trained again.
    can_replay = is_original and "adopted" not in state.cell
    method = _resumed(cell, graph, state) or (_replayed(cell, graph, state) if can_replay else None)
    if method is None:
        raise UsageError(
            f"{cell.method.label} goes on only with the graph as it was at first: it is trained again.",
            "Name that graph; or fit the method to the graph that you have.",
        )
    differing = changed_names(digests(state.weights), digests(method.state().weights))
    if differing:
        raise UsageError(
            f"{path}: {cell.method.label} does not go on as it was: {', '.join(differing[:3])} differ.",
            "Use the device and the versions that it was saved with, or fit it again.",
        )
    return method


def _read(data: Any, cell: Cell) -> Graph:
    """Read the graph by the rules of the file dataset of a cell, without its split."""
    if cell.dataset.cls is not File:
        raise UsageError("The state is not of a graph of your own.", "Save one of `task_from_data`.")
    params = cell.dataset.params.model_copy(update={"split": "folds"})
    if isinstance(data, Graph):
        return replace(data, split=None)
    if isinstance(data, str | Path):
        return load_graph(File(params.model_copy(update={"path": str(data)})), Path())
    return File(params).of_value(data)


def _resumed(cell: Cell, graph: Graph, state: State) -> Method | None:
    """Return the method with what the state holds; None if that is not all that it held."""
    assert state.service is not None
    method, requests = Method(cell.method), _requests(state)
    if not method.unlearner.can_resume():
        return None
    if data_digest(graph) != state.service["data"]:
        for request in requests:
            graph = request.apply(graph)
    own = _own_task(cell, graph, state)
    kept = {} if state.partition is None else {"partition": state.partition}
    method.unlearner.resume(own.bare(), state.weights, kept, state.service["memory"])
    if not set(state.service["attributes"]) <= set(vars(method.unlearner)):
        return None
    method.take_up(own, state.cell, state.service["original"], requests)
    return method


def _replayed(cell: Cell, graph: Graph, state: State) -> Method:
    """Return the method trained again and served every request again."""
    assert state.service is not None
    method, requests = Method(cell.method), _requests(state)
    own_split = state.split if cell.protocol.own_split else None
    method.fit(_own_task(cell, replace(graph, split=own_split), state))
    for request in requests:
        method.serve(request)
    return method


def _own_task(cell: Cell, graph: Graph, state: State) -> OwnTask:
    device = choose_device(cell.device)
    train = state.split.train[graph.contains(state.split.train)]
    unlabelled = protocol.unlabelled(graph, train, cell.protocol.setting)
    return OwnTask(
        graph.induced(train).to(device),
        cell.model,
        cell.training,
        device,
        protocol.task_seed(cell.seed, cell.dataset_identity, cell.repetition),
        full_graph=graph,
        split=state.split,
        dataset=cell.dataset,
        base_seed=cell.seed,
        repetition=cell.repetition,
        surroundings=surroundings(graph, unlabelled, device),
    )


def _requests(state: State) -> list[Request]:
    """Return the requests that were served, in their order."""
    amount = state.cell["protocol"]["forget"]
    listed = amount.get("requests") or ([amount["ids"]] if amount.get("ids") else [])
    return [Request(torch.tensor(ids, dtype=torch.int64), amount["kind"]) for ids in listed]
