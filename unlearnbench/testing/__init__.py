"""What plugin authors test with: conformance classes, small graphs, and a search for what a method still holds.

The public names are looked up when they are first used: `pytest` is needed by the classes alone.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unlearnbench.testing.conformance import AggregatorConformance as AggregatorConformance
    from unlearnbench.testing.conformance import AuditConformance as AuditConformance
    from unlearnbench.testing.conformance import DatasetConformance as DatasetConformance
    from unlearnbench.testing.conformance import MetricConformance as MetricConformance
    from unlearnbench.testing.conformance import ModelConformance as ModelConformance
    from unlearnbench.testing.conformance import PartitionerConformance as PartitionerConformance
    from unlearnbench.testing.conformance import UnlearnerConformance as UnlearnerConformance
    from unlearnbench.testing.conformance import check_component as check_component
    from unlearnbench.testing.graphs import toy_graph as toy_graph
    from unlearnbench.testing.graphs import toy_task as toy_task
    from unlearnbench.testing.rules.base import Fault as Fault
    from unlearnbench.testing.rules.base import Result as Result

_HOMES = {
    "AggregatorConformance": "conformance",
    "AuditConformance": "conformance",
    "DatasetConformance": "conformance",
    "MetricConformance": "conformance",
    "ModelConformance": "conformance",
    "PartitionerConformance": "conformance",
    "UnlearnerConformance": "conformance",
    "check_component": "conformance",
    "toy_graph": "graphs",
    "toy_task": "graphs",
    "Fault": "rules.base",
    "Result": "rules.base",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'unlearnbench.testing' has no attribute {name!r}")
    return getattr(importlib.import_module(f"unlearnbench.testing.{_HOMES[name]}"), name)
