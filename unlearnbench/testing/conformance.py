"""Runs the rules of a component's kind, for `unlearnbench plugin check` and for plugin authors' tests."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from unlearnbench.component import Spec
from unlearnbench.registry.catalogue import Catalogue
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.requirements import check_requirements
from unlearnbench.registry.resolve import resolve
from unlearnbench.testing.graphs import toys
from unlearnbench.testing.rules.base import MODEL, Case, Result, Rule, try_rule


def rules_of(kind: str) -> tuple[Rule, ...]:
    """Return the rules of a kind, in the order in which they are tried."""
    modules = (importlib.import_module(f"unlearnbench.testing.rules.{name}") for name in ("declared", kind))
    return tuple(rule for module in modules for rule in module.RULES)


def check_component(
    spec: Spec, catalogue: Catalogue, model: str = MODEL, data_root: Path | None = None
) -> Iterator[Result]:
    """Try every rule on a component.

    Args:
        spec: The component.
        catalogue: Where models, references and controls are found.
        model: The base model that methods train: a bracket.
        data_root: The folder of datasets; default: as for a run.

    Yields:
        The result of each rule, as soon as it is known.

    Raises:
        UsageError: A requirement of the component is not installed.
    """
    check_requirements([spec])
    resolve(catalogue, "model", model)
    case, made = Case(spec, catalogue, model, data_root), toys()
    crashes, failed = set[str](), set[str]()
    for rule in rules_of(spec.kind):
        lacking = [name for name in rule.needs if name in failed]
        if lacking:
            yield Result(rule.name, rule.promise, skipped=f"not tried while {', '.join(lacking)} fails")
            continue
        result = try_rule(rule, case, made, crashes)
        failed |= {rule.name} if result.faults else set()
        yield result


class Conformance:
    """Base of the classes that plugin authors subclass: one test per rule.

    Attributes:
        spec: The component: a bracket.
        model: The base model that methods train, if not `gcn`: a bracket.
    """

    kind: ClassVar[str]
    spec: ClassVar[str]
    model: ClassVar[str] = MODEL

    @classmethod
    def catalogue(cls) -> Catalogue:
        """Return the catalogue with the component: all installed plugins."""
        return load_catalogue()

    @classmethod
    @cache
    def case(cls) -> Case:
        """Return the component, looked up once per class."""
        catalogue = cls.catalogue()
        spec = resolve(catalogue, cls.kind, cls.spec)
        check_requirements([spec])
        return Case(spec, catalogue, cls.model)

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Generate one test for each rule."""
        if "rule" in metafunc.fixturenames:
            rules = rules_of(self.kind)
            metafunc.parametrize("rule", rules, ids=[rule.name for rule in rules])

    def test_conforms(self, rule: Rule) -> None:
        """Try one rule; pytest shows its faults as `unlearnbench plugin check` does."""
        import pytest
        import torch

        threads = torch.get_num_threads()
        # As `plugin check`: on toy graphs, threads that wait for each other cost ten times what they save.
        torch.set_num_threads(1)
        try:
            result = try_rule(rule, self.case(), toys(), set())
        finally:
            torch.set_num_threads(threads)
        if result.faults:
            pytest.fail("\n".join([f"{rule.promise}:", *map(str, result.faults)]), pytrace=False)
        if result.skipped:
            pytest.skip(result.skipped)


class PartitionerConformance(Conformance):
    """`class TestMine(PartitionerConformance): spec = "mine"`."""

    kind = "partitioner"


class AggregatorConformance(Conformance):
    """`class TestMine(AggregatorConformance): spec = "mine"`."""

    kind = "aggregator"


class UnlearnerConformance(Conformance):
    """`class TestMine(UnlearnerConformance): spec = "mine"`."""

    kind = "unlearner"


class DatasetConformance(Conformance):
    """`class TestMine(DatasetConformance): spec = "mine"`."""

    kind = "dataset"


class ModelConformance(Conformance):
    """`class TestMine(ModelConformance): spec = "mine"`."""

    kind = "model"


class MetricConformance(Conformance):
    """`class TestMine(MetricConformance): spec = "mine"`."""

    kind = "metric"


class AuditConformance(Conformance):
    """`class TestMine(AuditConformance): spec = "mine"`."""

    kind = "audit"
