"""A user's own graph: `file:PATH`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field
from torch import Tensor

from unlearnbench.component import ComponentParams, later, location
from unlearnbench.datasets.base import Dataset
from unlearnbench.datasets.checks import checked_graph
from unlearnbench.datasets.own.arrays import (
    Features,
    both_directions,
    check_edge_shape,
    class_labels,
    edge_columns,
    node_features,
    node_ids,
    number_of_classes,
    odd_classes,
)
from unlearnbench.datasets.own.edge_weights import OPTION, both_ways, edge_weights
from unlearnbench.datasets.own.held import held
from unlearnbench.datasets.own.reading import ARRAYS, WEIGHT, check_complete, read_graph_file, tensors_by_name
from unlearnbench.datasets.own.splits import PARTS, own_split, split_masks
from unlearnbench.datasets.own.tensors import plain_values
from unlearnbench.errors import DataError, UsageError
from unlearnbench.graph import Graph

# What PyG's own Data carries along that says nothing new.
PLAIN = {"num_nodes", "__num_nodes__", "ptr", "batch"}


class File(Dataset):
    """A graph of your own: a torch file, an archive of arrays or a folder of tables.

    In files, `edge_index` holds positions (rows of `x` and `y`) and `ids` names the rows; in
    tables, edges name ids. Where the file lies is no part of a cell's key: the checksum is.
    """

    name = "file"
    summary = "Your own graph: file:PATH, a .pt or .npz file or a folder of CSV tables."
    license = "yours"
    source = "a path"

    class Params(ComponentParams):
        """Where it lies and how it is read."""

        path: str = location("A .pt or .npz file, or a folder with edges.csv, features.csv and labels.csv.")
        split: int | Literal["folds"] | None = Field(
            None, description="Which of several splits in the masks; folds: the harness's instead."
        )
        features: Features = Field(
            "given", description="The file's, the number of edges that end in a node, or 1 for all."
        )
        undirected: bool = Field(False, description="Add the reverse of every edge and drop duplicates.")
        weighted: bool = later(False, "Use the weights of edges: edge_weight, or the column weight of edges.csv.")

    @classmethod
    def recorded_name(cls, params: Any) -> str:
        """Return `file:NAME`, the name without its folder."""
        path = Path(params.path)
        return f"{cls.name}:{path.name or path}" if params.path else cls.name

    def load(self, root: Path) -> Graph:
        """Load the graph: see `Dataset.load`. Ids are those of the file, else 0..n-1."""
        at_hand = held(self.params.path)
        if at_hand is not None:
            return self.of_value(at_hand, self.recorded_name(self.params))
        found, notes = read_graph_file(self._path(), self._names)
        graph = self._checked(found, self.recorded_name(self.params))
        self.notes = [*notes, *self.notes]
        return graph

    def of_value(self, data: Any, name: str = "data") -> Graph:
        """Make the graph of copies of a PyG `Data` or a dictionary of tensors at hand, by the rules for files.

        Args:
            data: The data.
            name: What messages call it.

        Raises:
            DataError: As `load`.
            UsageError: There are several splits and none was chosen, or one that is not there.
        """
        found = tensors_by_name(data, "The data", self._names)
        check_complete(found, "The data")
        return self._checked(found, name, is_ours=False)

    def _checked(self, found: dict[str, Any], name: str, *, is_ours: bool = True) -> Graph:
        try:
            graph = self._graph(found, is_ours)
        except UsageError as error:
            raise type(error)(f"Dataset {name}: {error.message}", error.hint) from None
        return checked_graph(graph, name)

    @property
    def _names(self) -> tuple[str, ...]:
        """The names of what is used."""
        return (*ARRAYS, WEIGHT) if self.params.weighted else ARRAYS

    def presence(self, root: Path) -> str:
        """Report whether the path exists."""
        if not self.params.path:
            return "needs a path: file:PATH"
        if held(self.params.path) is not None:
            return "at hand"
        path = self._path()
        try:
            return f"in {path}" if path.exists() else f"not there: {path}"
        except OSError as error:
            return f"not there: {path}: {error.strerror}"

    def _path(self) -> Path:
        if not self.params.path:
            raise UsageError("file: no path is named.", "Write file:PATH.")
        try:
            return Path(self.params.path).expanduser()
        except RuntimeError:
            raise DataError(f"{self.params.path}: there is no such user.", "Write the whole path.") from None

    def _graph(self, found: dict[str, Any], is_ours: bool) -> Graph:
        ignored = sorted(key for key in found if key not in self._names and key not in PLAIN)
        ignored = [f"{key} ({OPTION} uses it)" if key == WEIGHT else key for key in ignored]
        check_edge_shape(found["edge_index"], found["y"])
        found = {key: plain_values(key, found[key]) for key in self._names if found.get(key) is not None}
        if not is_ours:
            found = {key: value.clone() if isinstance(value, Tensor) else value for key, value in found.items()}
        y, notes = class_labels(found["y"])
        self.notes = [*([f"ignored: {', '.join(ignored)}."] if ignored else []), *notes]
        edge_index = edge_columns(found["edge_index"], len(y))
        weight = edge_weights(found.get(WEIGHT), edge_index.shape[1]) if self.params.weighted else None
        if self.params.undirected and weight is not None:
            edge_index, weight = both_ways(edge_index, weight, len(y))
        elif self.params.undirected:
            edge_index = both_directions(edge_index, len(y))
        x = node_features(found.get("x"), edge_index, len(y), self.params.features)
        ids = node_ids(found.get("ids"), len(y))
        parts = {} if self.params.split == "folds" else {name: found[name] for name in PARTS if name in found}
        masks = split_masks(parts, len(y))
        split = own_split(masks, ids, self.params.split)
        if split is not None and len(split.val) == 0:
            self.notes.append("its split has no validation nodes: validation scores are empty.")
        count = number_of_classes(found.get("num_classes"), y)
        self.notes += odd_classes(y, count)
        return Graph(x, y, edge_index, ids, count, split, weight)
