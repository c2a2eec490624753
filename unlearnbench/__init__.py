"""unlearnbench: a benchmark harness for graph unlearning.

The public names are looked up when they are first used, so that importing the package
imports neither torch nor pandas.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unlearnbench.aggregation import Aggregator as Aggregator
    from unlearnbench.aggregation import LearnedAggregator as LearnedAggregator
    from unlearnbench.aggregation import Members as Members
    from unlearnbench.audits.base import Audit as Audit
    from unlearnbench.audits.base import Finding as Finding
    from unlearnbench.audits.base import Score as Score
    from unlearnbench.audits.subject import Subject as Subject
    from unlearnbench.component import Component as Component
    from unlearnbench.component import ComponentParams as ComponentParams
    from unlearnbench.component import Spec as Spec
    from unlearnbench.component import part as part
    from unlearnbench.datasets.base import Dataset as Dataset
    from unlearnbench.direct import Method as Method
    from unlearnbench.direct import method as method
    from unlearnbench.errors import UnlearnbenchError as UnlearnbenchError
    from unlearnbench.errors import UsageError as UsageError
    from unlearnbench.execution import run as run
    from unlearnbench.gnn import Model as Model
    from unlearnbench.gnn import StackedModel as StackedModel
    from unlearnbench.gnn import train_networks as train_networks
    from unlearnbench.graph import Graph as Graph
    from unlearnbench.hookspecs import hookimpl as hookimpl
    from unlearnbench.metrics.base import Metric as Metric
    from unlearnbench.partitioning import Partitioner as Partitioner
    from unlearnbench.record import Record as Record
    from unlearnbench.report import load_records as load_records
    from unlearnbench.requests import Request as Request
    from unlearnbench.states import State as State
    from unlearnbench.states import load_state as load_state
    from unlearnbench.task import Query as Query
    from unlearnbench.task import Task as Task
    from unlearnbench.task import View as View
    from unlearnbench.unlearning import Claim as Claim
    from unlearnbench.unlearning import PostHoc as PostHoc
    from unlearnbench.unlearning import Sharded as Sharded
    from unlearnbench.unlearning import Unlearner as Unlearner

_HOMES = {
    "Aggregator": "aggregation",
    "LearnedAggregator": "aggregation",
    "Members": "aggregation",
    "Audit": "audits.base",
    "Finding": "audits.base",
    "Score": "audits.base",
    "Subject": "audits.subject",
    "Component": "component",
    "ComponentParams": "component",
    "Spec": "component",
    "part": "component",
    "Dataset": "datasets.base",
    "Method": "direct",
    "method": "direct",
    "UnlearnbenchError": "errors",
    "UsageError": "errors",
    "run": "execution",
    "Model": "gnn",
    "StackedModel": "gnn",
    "train_networks": "gnn",
    "Graph": "graph",
    "hookimpl": "hookspecs",
    "Metric": "metrics.base",
    "Partitioner": "partitioning",
    "Record": "record",
    "load_records": "report",
    "Request": "requests",
    "State": "states",
    "load_state": "states",
    "Query": "task",
    "Task": "task",
    "View": "task",
    "Claim": "unlearning",
    "PostHoc": "unlearning",
    "Sharded": "unlearning",
    "Unlearner": "unlearning",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("unlearnbench")
    if name not in _HOMES:
        raise AttributeError(f"module 'unlearnbench' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"unlearnbench.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*_HOMES, "__version__"]
