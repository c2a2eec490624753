"""Trains the members of each cell on the workers of a dask cluster; the rest of a cell is computed here."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from unlearnbench.errors import StoppedError, UnlearnbenchError, UsageError
from unlearnbench.graph import Graph
from unlearnbench.running.backends.dask_cells import GPU, connected, other_versions
from unlearnbench.running.backends.dask_worker import to_arrays, to_tensors, train_members
from unlearnbench.running.backends.order import MemberOrder
from unlearnbench.running.cell import Cell
from unlearnbench.running.cell_codec import cell_to_plain
from unlearnbench.running.outcome import MEMBERS, RunContext
from unlearnbench.running.plan import Plan
from unlearnbench.task import Task
from unlearnbench.task.task import ShardGroup, TrainedGroup

# How often a member is sent when workers with its graph are lost: as often as dask retries a task.
MOST_ATTEMPTS = 4


@contextlib.contextmanager
def members_on_dask(plan: Plan) -> Iterator[RunContext]:
    """Connect to a scheduler, and yield a context in which the members of cells are trained on its workers.

    Raises:
        UsageError: As for `dask_cells.connected`; or a cell is an audit.
    """
    if any(cell.audit is not None for cell in plan.cells):
        raise UsageError(
            "`distribute` members is for run: an audit trains more than members.", "Leave it out, or use cells."
        )
    with connected(plan) as client:
        yield replace(plan.context, backend=MEMBERS, elsewhere=lambda cell: ClusterTraining(client, plan, cell))


class ClusterTraining:
    """A `CheckpointStore` that trains each member of a phase on the cluster.

    The training graph goes to every worker once; orders name shards and their nodes. A member whose worker
    is lost is trained by another: it depends on its own shard alone, so the result is bit for bit the same.
    """

    most: int | None = 1

    def __init__(self, client: Any, plan: Plan, cell: Cell) -> None:
        self._client, self._plan, self._cell = client, plan, cell
        self._sent: dict[tuple[int, ...], tuple[ShardGroup, Any]] = {}
        # Held until all groups are back: dask drops data without a reference.
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

        for _ in range(MOST_ATTEMPTS):
            if group.shards not in self._sent:
                return None
            with _cluster_errors(self._plan):
                try:
                    return self._received(group, self._sent[group.shards][1].result())
                except distributed.KilledWorker as error:
                    raise _lost(group, str(error)) from error
                except distributed.CancelledError:
                    # The lost worker held the graph, and dask cancelled everything that needed it.
                    self._send(task, [one for one, future in self._sent.values() if future.cancelled()])
        raise _lost(group, f"It was sent {MOST_ATTEMPTS} times.")

    def _received(self, group: ShardGroup, answer: Mapping[str, Any]) -> TrainedGroup:
        del self._sent[group.shards]
        if not self._sent:
            self._graph = None
        if answer["differences"]:
            error = other_versions("that joined later", answer["differences"])
            raise StoppedError(error.message, error.hint, error.exit_code)
        return TrainedGroup(to_tensors(answer["members"]), to_tensors(answer["extra_state"]), answer["counts"])

    def keep(self, task: Task, group: ShardGroup, trained: TrainedGroup) -> None:
        """Do nothing: results are not stored on the cluster."""

    def _send(self, task: Task, groups: Sequence[ShardGroup]) -> None:
        # As for cells: without workers, wait for one.
        self._client.wait_for_workers(1)
        (self._graph,) = self._client.scatter([_graph_to_arrays(task.seen)], broadcast=True, hash=False)
        for group in groups:
            self._sent[group.shards] = group, self._submitted(task, group)

    def _submitted(self, task: Task, group: ShardGroup) -> Any:
        context = self._plan.context
        order = MemberOrder(
            cell=cell_to_plain(self._cell),
            disable_plugins=self._plan.config.disable_plugins,
            provenance=context.provenance,
            **context.torch_settings(),
            training=task.training.canonical(),
            seed=task.seed,
            shards=list(group.shards),
        )
        return self._client.submit(
            train_members,
            order.to_json(),
            self._graph,
            [ids.cpu().numpy() for ids in group.ids],
            to_arrays(group.extra_state),
            key=f"unlearnbench-{self._cell.key}-{'-'.join(map(str, group.shards))}-{uuid4().hex}",
            pure=False,
            resources={GPU: 1} if context.device.type == "cuda" else None,
            retries=0,
        )


def _lost(group: ShardGroup, reason: str) -> UnlearnbenchError:
    return UnlearnbenchError(
        f"The member of shard {group.shards[0]} was not trained: every worker that began it was lost. {reason}",
        "See what ends workers: their memory, most often.",
    )


@contextlib.contextmanager
def _cluster_errors(plan: Plan) -> Iterator[None]:
    """Turn errors of dask after which no member can be trained into an error that ends the run."""
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


def _graph_to_arrays(graph: Graph) -> dict[str, NDArray[Any]]:
    tensors = {"x": graph.x, "y": graph.y, "edge_index": graph.edge_index, "ids": graph.ids}
    weights = {} if graph.edge_weight is None else {"edge_weight": graph.edge_weight}
    return {**to_arrays({**tensors, **weights}), "num_classes": np.asarray(graph.num_classes)}
