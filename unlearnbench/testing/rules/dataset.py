"""What a dataset must keep to."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from unlearnbench.datasets.base import Dataset, data_root, load_graph
from unlearnbench.datasets.raw import OFFLINE_VARIABLE
from unlearnbench.errors import DataError, MissingDataError, UnlearnbenchError
from unlearnbench.graph import Graph
from unlearnbench.protocol import Forget, protocol
from unlearnbench.testing.graphs import Toy
from unlearnbench.testing.rules.base import UNEQUAL, Case, Fault, Rule, Skipped
from unlearnbench.testing.rules.purity import check_chance, same_chance

_LEAST_CLASSES = 2


@contextmanager
def _offline() -> Iterator[None]:
    """Forbid downloads: a check of a plugin is not to fetch anything."""
    before = os.environ.get(OFFLINE_VARIABLE)
    os.environ[OFFLINE_VARIABLE] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[OFFLINE_VARIABLE]
        else:
            os.environ[OFFLINE_VARIABLE] = before


def _load(case: Case, root: Path | None = None) -> Graph:
    dataset: Dataset = case.build()
    with _offline():
        return load_graph(dataset, root or data_root(case.data_root))


def _graph(case: Case) -> Graph:
    """Give the graph, or skip where its files are not here."""
    try:
        return case.remembered("graph", lambda: _load(case))
    except MissingDataError as error:
        raise Skipped(f"its files are not here: {error.message}") from None


def _gives_a_graph(case: Case, toy: Toy) -> Iterator[Fault]:
    try:
        graph = _graph(case)
    except DataError as error:
        yield Fault(error.message, error.hint or "See docs/datasets.md for what a graph must be.")
        return
    if graph.num_classes < _LEAST_CLASSES:
        yield Fault(f"It has {graph.num_classes} classes.", "There must be at least 2 to tell apart.")
    if int(graph.y.max()) < 0:
        yield Fault("No node has a label.", "Give y in [0, num_classes); -1 is for nodes without one.")
    if graph.ids.device.type != "cpu":
        yield Fault(f"The graph is on {graph.ids.device}.", "Load onto the CPU; the harness moves it.")


def _fits_the_protocol(case: Case, toy: Toy) -> Iterator[Fault]:
    graph = _graph(case)
    settings = protocol.Protocol(forget=Forget(None, 1), own_split=graph.split is not None)
    try:
        drawn = protocol.repetition_data(settings, graph, 0, case.name, 0)
    except UnlearnbenchError as error:
        yield Fault(f"No split or request can be drawn from it: {error.message}", error.hint)
        return
    train = graph.induced(drawn.split.train)
    if train.num_edges == 0 and graph.num_edges > 0:
        yield Fault("Its training nodes have no edge among them.", "Check that edges name positions, not ids.")


def _gives_the_same_graph(case: Case, toy: Toy) -> Iterator[Fault]:
    first = _graph(case)
    with same_chance(0):
        again = _load(case)
    if first.checksum() != again.checksum():
        case.memory[UNEQUAL] = True
        apart = [name for name in ("x", "y", "edge_index", "ids") if not _equal(first, again, name)]
        yield Fault(
            f"Loaded twice it is another graph: {', '.join(apart) or 'its split'} differ.",
            "Draw from seeds.generator with a parameter as the seed, and sort what comes from a set.",
        )


def _equal(one: Graph, other: Graph, name: str) -> bool:
    return bool(getattr(one, name).equal(getattr(other, name)))


def _leaves_chance_alone(case: Case, toy: Toy) -> Iterator[Fault]:
    _graph(case)

    def run(seed: int) -> tuple[str, list[str]]:
        with same_chance(seed) as used:
            graph = _load(case)
        return graph.checksum(), used

    yield from check_chance(case, run, lambda one, other: "" if one == other else "another graph")


def _says_what_is_missing(case: Case, toy: Toy) -> Iterator[Fault]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "data"
        said = case.build().presence(root)
        if not isinstance(said, str) or not said:
            yield Fault(f"presence() gave {said!r}.", "Say in a few words whether the files are there.")
        try:
            _load(case, root)
        except DataError as error:
            if not error.hint:
                yield Fault(f"Without its files it says: {error.message}", "Add a hint: which files go where.")
        except UnlearnbenchError as error:
            yield Fault(f"Without its files it says: {error.message}", "Raise DataError that names files and folder.")
        except Exception as error:  # a stranger's loader may fail in any way
            yield Fault(
                f"Without its files it crashes: {type(error).__name__}: {error}.",
                "Raise DataError(message, hint) of unlearnbench.errors that names the files and their folder.",
            )


RULES = (
    Rule("a-graph", "load() gives a graph that the harness lets in", _gives_a_graph),
    Rule("same-answer", "it is the same graph every time", _gives_the_same_graph),
    Rule("own-chance", "the global random generators are neither read nor changed", _leaves_chance_alone),
    Rule("protocol", "splits and requests can be drawn from it", _fits_the_protocol),
    Rule("missing-files", "without its files it says what is missing, in one message", _says_what_is_missing),
)
