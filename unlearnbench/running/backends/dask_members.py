"""Has the members of each cell trained on the workers of a dask cluster; all else of a cell is computed here."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import uuid4

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unlearnbench.errors import StoppedError, UnlearnbenchError, UsageError
from unlearnbench.running.backends import dask_worker
from unlearnbench.running.backends.dask_cells import GPU, connected, other_versions
from unlearnbench.running.cell import Cell
from unlearnbench.running.cell_codec import cell_to_plain
from unlearnbench.running.outcome import MEMBERS, RunContext
from unlearnbench.running.plan import Plan
from unlearnbench.task import Task
from unlearnbench.task.task import ShardGroup, TrainedGroup

# How often a member is sent when workers are lost that held its graph: as often as dask lets a task cost workers.
MOST_SENDINGS = 4
Arrays = dict[str, NDArray[Any]]


@contextlib.contextmanager
def members_on_dask(plan: Plan) -> Iterator[RunContext]:
    """Connect to a scheduler, and give surroundings in which the members of cells are trained on its workers.

    Args:
        plan: What to run; its settings name the scheduler.

    Raises:
        UsageError: As `cluster.connected`; or a cell is an audit.
    """
    if any(cell.audit is not None for cell in plan.cells):
        raise UsageError(
            "--distribute members is for run: an audit trains more than members.", "Leave it out, or use cells."
        )
    with connected(plan) as client:
        yield replace(plan.context, backend=MEMBERS, elsewhere=lambda cell: ClusterKeeper(client, plan, cell))


class ClusterKeeper:
    """Sends each member of a phase to the cluster, and gives what comes back; the store never leaves this side.

    The training graph goes to every worker once; what follows names shards and their nodes. A member
    whose worker is lost is trained by another: it depends on its own shard alone, so it has the same bits.

    Args:
        client: A connected client of dask.
        plan: What is run.
        cell: Which.
    """

    most: int | None = 1

    def __init__(self, client: Any, plan: Plan, cell: Cell) -> None:
        self._client, self._plan, self._cell = client, plan, cell
        self._sent: dict[tuple[int, ...], tuple[ShardGroup, Any]] = {}
        # Held while there is anything to come: dask forgets what nobody holds.
        self._graph: Any = None

    def begin(self, task: Task, groups: Sequence[ShardGroup]) -> bool:
        """Send the graph and every group."""
        if groups:
            with _cluster_errors(self._plan):
                self._send(task, groups)
        return True

    def find(self, task: Task, group: ShardGroup) -> TrainedGroup | None:
        """Wait for a group.

        Raises:
            UnlearnbenchError: Every worker that began it was lost.
            StoppedError: The scheduler is lost, or a worker that joined later has other versions.
        """
        import distributed

        for _ in range(MOST_SENDINGS):
            if group.shards not in self._sent:
                return None
            with _cluster_errors(self._plan):
                try:
                    return self._received(group, self._sent[group.shards][1].result())
                except distributed.KilledWorker as error:
                    raise _lost(group, str(error)) from error
                except distributed.CancelledError:
                    # The graph was on the worker that was lost, and with it went all that needed it.
                    self._send(task, [one for one, future in self._sent.values() if future.cancelled()])
        raise _lost(group, f"It was sent {MOST_SENDINGS} times.")

    def _received(self, group: ShardGroup, answer: Mapping[str, Any]) -> TrainedGroup:
        del self._sent[group.shards]
        if not self._sent:
            self._graph = None
        if answer["differences"]:
            error = other_versions("that joined later", answer["differences"])
            raise StoppedError(error.message, error.hint, error.exit_code)
        return TrainedGroup(_to_tensors(answer["members"]), _to_tensors(answer["extra_state"]), answer["counts"])

    def keep(self, task: Task, group: ShardGroup, trained: TrainedGroup) -> None:
        """Keep nothing."""

    def _send(self, task: Task, groups: Sequence[ShardGroup]) -> None:
        # Cells on a cluster without workers wait for one, and so does this.
        self._client.wait_for_workers(1)
        (self._graph,) = self._client.scatter([_graph_to_arrays(task)], broadcast=True, hash=False)
        for group in groups:
            self._sent[group.shards] = group, self._submitted(task, group)

    def _submitted(self, task: Task, group: ShardGroup) -> Any:
        context = self._plan.context
        order = {
            "cell": cell_to_plain(self._cell),
            "disable_plugins": self._plan.config.disable_plugins,
            "provenance": context.provenance,
            "training": task.training.canonical(),
            "seed": task.seed,
            "shards": list(group.shards),
            "device": str(context.device),
            "threads": context.threads,
            "deterministic": context.deterministic,
        }
        return self._client.submit(
            dask_worker.train_members,
            json.dumps(order, allow_nan=False),
            self._graph,
            [ids.cpu().numpy() for ids in group.ids],
            _to_arrays(group.extra_state),
            key=f"unlearnbench-{self._cell.key}-{'-'.join(map(str, group.shards))}-{uuid4().hex}",
            pure=False,
            resources={GPU: 1} if context.device.type == "cuda" else None,
            retries=0,
        )


def _lost(group: ShardGroup, said: str) -> UnlearnbenchError:
    return UnlearnbenchError(
        f"The member of shard {group.shards[0]} was not trained: every worker that began it was lost. {said}",
        "See what ends workers: their memory, most often.",
    )


@contextlib.contextmanager
def _cluster_errors(plan: Plan) -> Iterator[None]:
    """Turn what dask raises when no member can be trained any more into an error that ends the run."""
    import distributed

    try:
        yield
    except (distributed.CancelledError, distributed.comm.CommClosedError, OSError, TimeoutError) as error:
        raise StoppedError(
            f"The scheduler {plan.config.scheduler} is lost ({type(error).__name__}: {error}).",
            "Finished cells are kept: run the same command again when there is a scheduler.",
        ) from error
    except (ImportError, AttributeError) as error:
        raise StoppedError(
            f"A worker cannot train members: {type(error).__name__}: {error}.",
            "Install the same unlearnbench there as here.",
        ) from error


def _graph_to_arrays(task: Task) -> Arrays:
    graph = task.graph
    tensors = {"x": graph.x, "y": graph.y, "edge_index": graph.edge_index, "ids": graph.ids}
    return {**_to_arrays(tensors), "num_classes": np.asarray(graph.num_classes)}


def _to_arrays(values: Mapping[str, Tensor]) -> Arrays:
    return {name: value.detach().cpu().numpy() for name, value in values.items()}


def _to_tensors(values: Mapping[str, NDArray[Any]]) -> dict[str, Tensor]:
    return {name: torch.tensor(value) for name, value in values.items()}
