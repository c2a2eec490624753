"""Learning curves of a cell: the loss of each network after each epoch, and its F1 on the validation nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from unlearnbench.protocol import protocol
from unlearnbench.records.curve_files import HEAD
from unlearnbench.task import Query
from unlearnbench.task.training import AfterEpoch, Answer

Arrays = dict[str, NDArray[Any]]
# Takes the losses of the networks trained together, [S], and the classes they predict of the validation nodes, [S, n].
OnValues = Callable[[NDArray[np.float32], NDArray[np.int16] | None], None]
PREDICTED = f"{HEAD}predicted"


class Curves:
    """Follows the trainings of a cell.

    No label of a validation node is in here: what networks predict is kept, and scored when the method is done.

    Args:
        on_values: Called after each epoch.
    """

    def __init__(self, on_values: OnValues | None = None) -> None:
        self._on_values = on_values
        self._question: tuple[Any, Tensor] | None = None
        self._rows: dict[str, list[Any]] = {
            name: [] for name in ("phase", "role", "step", "network", "epoch", "loss", "predicted")
        }

    def ask(self, query: Query | None) -> None:
        """Ask this of all networks after each epoch from now on; None: there are no validation nodes."""
        self._question = None if query is None else (query.graph, query.graph.positions(query.targets))

    def follow(self, phase: str, role: str, step: int, networks: Sequence[int], answer: Answer) -> AfterEpoch:
        """Return what is called after each epoch of a training: see `Listener.follow`."""
        epoch = 0

        def after_epoch(losses: Tensor) -> None:
            nonlocal epoch
            epoch += 1
            logits = None if self._question is None else answer(*self._question)
            predicted = None if logits is None else logits.argmax(dim=2).cpu().numpy().astype(np.int16)
            values = losses.cpu().numpy().astype(np.float32)
            classes = [None] * len(networks) if predicted is None else predicted
            for network, value, of_network in zip(networks, values, classes, strict=True):
                row = (phase, role, step, network, epoch, value, of_network)
                for column, item in zip(self._rows.values(), row, strict=True):
                    column.append(item)
            if self._on_values is not None:
                self._on_values(values, predicted)

        return after_epoch

    def arrays(self) -> Arrays:
        """Return one row for each network and epoch, by column; the classes predicted are int16 [rows, n], else -1."""
        rows = self._rows
        sizes = {len(one) for one in rows["predicted"] if one is not None}
        unknown = np.full(sizes.pop() if sizes else 0, -1, np.int16)
        predicted = [unknown if one is None else one for one in rows["predicted"]]
        return {
            **{f"{HEAD}{name}": np.array(rows[name], dtype=np.str_) for name in ("phase", "role")},
            **{f"{HEAD}{name}": np.array(rows[name], dtype=np.int32) for name in ("step", "network", "epoch")},
            f"{HEAD}loss": np.array(rows["loss"], dtype=np.float32),
            PREDICTED: np.stack(predicted) if predicted else np.zeros((0, 0), np.int16),
        }


def micro_f1(predicted: NDArray[np.int16], labels: Tensor) -> NDArray[np.float32]:
    """Return the micro-F1 of each row of predicted classes, the share that is right; NaN where nothing was asked."""
    if predicted.shape[-1] == 0:
        return np.full(predicted.shape[:-1], np.nan, np.float32)
    right = (predicted == labels.cpu().numpy()).mean(axis=-1)
    return np.where((predicted < 0).any(axis=-1), np.nan, right).astype(np.float32)


def scored_curves(arrays: Mapping[str, NDArray[Any]], data: protocol.RepetitionData) -> Arrays:
    """Return the arrays of a cell with validation F1 in place of what networks predicted of validation nodes."""
    if PREDICTED not in arrays:
        return dict(arrays)
    scored = {name: array for name, array in arrays.items() if name != PREDICTED}
    return scored | {f"{HEAD}val_f1": micro_f1(arrays[PREDICTED], validation_labels(data))}


def validation_labels(data: protocol.RepetitionData) -> Tensor:
    """Return the labels of the validation nodes, int64 [n]."""
    labels: Tensor = data.graph.y[data.graph.positions(data.split.val)]
    return labels


def means(losses: NDArray[np.float32], predicted: NDArray[np.int16] | None, labels: Tensor) -> dict[str, float]:
    """Return the loss and the validation F1 after an epoch, averaged over the networks trained together."""
    values = {"loss": float(losses.mean())}
    if predicted is not None and len(labels):
        values["val_f1"] = float(micro_f1(predicted, labels).mean())
    return values
