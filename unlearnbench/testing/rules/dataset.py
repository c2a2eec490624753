"""The rules of datasets."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

from unlearnbench.datasets.base import data_root, load_graph
from unlearnbench.errors import DataError, MissingDataError, UnlearnbenchError
from unlearnbench.graph import Graph
from unlearnbench.protocol import Forget, protocol
from unlearnbench.registry.environment import OFFLINE
from unlearnbench.testing.graphs import Toy
from unlearnbench.testing.rules.base import Case, Fault, Rule, Skipped
from unlearnbench.testing.rules.purity import copies, reproducible, seeded_answer

_LEAST_CLASSES = 2


def _load(case: Case, root: Path | None = None) -> Graph:
    """Load the graph offline: a check of a plugin must not download anything."""
    with patch.dict(os.environ, {OFFLINE: "1"}):
        return load_graph(case.build(), root or data_root(case.data_root))


def _loaded(case: Case, toy: Toy) -> Graph:
    try:
        return _load(case)
    except MissingDataError as error:
        raise Skipped(f"its files are not here: {error.message}") from None


def _graph(case: Case, toy: Toy) -> Graph:
    graph: Graph = seeded_answer(case, toy, _loaded)[0]
    return graph


def _gives_a_graph(case: Case, toy: Toy) -> Iterator[Fault]:
    try:
        graph = _graph(case, toy)
    except DataError as error:
        yield Fault(error.message, error.hint or "See docs/datasets.md for what a graph must be.")
        return
    if graph.num_classes < _LEAST_CLASSES:
        yield Fault(f"It has {graph.num_classes} classes.", "There must be at least 2 to tell apart.")
    if int(graph.y.max()) < 0:
        yield Fault("No node has a label.", "Set y in [0, num_classes); -1 is for nodes without one.")
    if graph.ids.device.type != "cpu":
        yield Fault(f"The graph is on {graph.ids.device}.", "Load onto the CPU; the harness moves it.")


def _fits_the_protocol(case: Case, toy: Toy) -> Iterator[Fault]:
    graph = _graph(case, toy)
    settings = protocol.Protocol(forget=Forget(None, 1), own_split=graph.split is not None)
    try:
        drawn = protocol.repetition_data(settings, graph, 0, case.spec.name, 0)
    except UnlearnbenchError as error:
        yield Fault(f"No split or request can be drawn from it: {error.message}", error.hint)
        return
    train = graph.induced(drawn.split.train)
    if train.num_edges == 0 and graph.num_edges > 0:
        yield Fault("Its training nodes have no edge among them.", "Check that edges name positions, not ids.")


def _difference(one: Graph, other: Graph) -> str:
    if one.checksum() == other.checksum():
        return ""
    ours, theirs = copies(one, other)
    names = [*dict.fromkeys([*ours, *theirs])]
    unequal = [name for name in names if name not in ours or name not in theirs or not ours[name].equal(theirs[name])]
    return f"{', '.join(unequal) or 'its split'} differ"


def _reports_what_is_missing(case: Case, toy: Toy) -> Iterator[Fault]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "data"
        presence = case.build().presence(root)
        if not isinstance(presence, str) or not presence:
            yield Fault(f"presence() gave {presence!r}.", "Describe in a few words whether the files are there.")
        try:
            _load(case, root)
        except DataError as error:
            if not error.hint:
                yield Fault(f"Its error without its files: {error.message}", "Add a hint: which files go where.")
        except UnlearnbenchError as error:
            yield Fault(
                f"Its error without its files: {error.message}", "Raise a DataError that names files and folder."
            )
        except Exception as error:  # a stranger's loader may fail in any way
            yield Fault(
                f"Without its files it crashes: {type(error).__name__}: {error}.",
                "Raise DataError(message, hint) of unlearnbench.errors that names the files and their folder.",
            )


RULES = (
    Rule("a-graph", "load() returns a graph that the harness accepts", _gives_a_graph),
    *reproducible(
        "it is the same graph every time",
        _loaded,
        _difference,
        "Loaded twice it is another graph: {}.",
        "Draw from seeds.generator with a parameter as the seed, and sort what comes from a set.",
    ),
    Rule("protocol", "splits and requests can be drawn from it", _fits_the_protocol),
    Rule("missing-files", "without its files it reports what is missing, in one message", _reports_what_is_missing),
)
