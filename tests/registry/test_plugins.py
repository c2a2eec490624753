"""Loading plugins: one that is broken harms no other, and nothing goes wrong in silence."""

from __future__ import annotations

import inspect

import pytest
from plugin_samples import (
    FakePoint,
    Write,
    component,
    install,
    load,
    plugin_of,
    status_of,
)

from unlearnbench import hookspecs
from unlearnbench.errors import UsageError
from unlearnbench.registry.loading import load_catalogue

__all__ = ["install"]


LAZY = """
import abc
from unlearnbench import Component

class Cut(Component):
    name = "other"

class Nameless(Component):
    pass

class Stranger:
    name = "cut"

class Unfinished(Component, abc.ABC):
    name = "cut"
    @abc.abstractmethod
    def partition(self, task, num_shards): ...

def function(params): ...
"""


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("ub_lazy:Cut", "calls itself 'other'"),
        ("ub_lazy:Nameless", "calls itself None"),
        ("ub_lazy:Stranger", "not a class derived from unlearnbench.Component"),
        ("ub_lazy:function", "not a class derived from unlearnbench.Component"),
        ("ub_lazy:Unfinished", "does not define partition"),
        ("ub_lazy:Missing", "has no attribute 'Missing'"),
        ("ub_nowhere:Cut", "No module named 'ub_nowhere'"),
        ("ub_exits:Cut", "SystemExit: 3"),
    ],
)
def test_lazily_announced_class_is_checked_when_it_is_used(target: str, said: str, install: Write) -> None:
    install("ub-lazy", LAZY)
    install("ub-exits", "raise SystemExit(3)")
    catalogue = load(FakePoint("lazy", plugin_of(partitioners=[("cut", target)]), "ub-l"))
    assert status_of(catalogue, "lazy") == ("ok", "")
    with pytest.raises(UsageError) as caught:
        catalogue.load(catalogue.find("partitioner", "cut"))
    assert all(part in str(caught.value) for part in ("'cut'", "ub-l", said))


def test_class_announced_directly_keeps_its_own_name_and_summary() -> None:
    catalogue = load(FakePoint("cut", plugin_of(partitioners=[component("cut")])))
    entry = catalogue.find("partitioner", "cut")
    assert (entry.name, entry.summary, entry.distribution_version) == ("cut", "A cut.", "1.0")
    assert catalogue.load(entry).name == "cut"


@pytest.mark.parametrize(("name", "close"), [("retrian", "retrain"), ("sharde", "sharded")])
def test_unknown_name_gives_near_matches_and_where_to_look(name: str, close: str) -> None:
    catalogue = load(FakePoint("retrain", plugin_of(unlearners=[component("retrain")]), "unlearnbench"))
    with pytest.raises(UsageError, match=f"Did you mean {close}.*unlearnbench ls method"):
        catalogue.find("unlearner", name)


def test_every_hook_belongs_to_a_kind_and_takes_register_alone() -> None:
    hooks = {name: f for name, f in inspect.getmembers(hookspecs, inspect.isfunction) if name.startswith("register_")}
    assert set(hooks) == set(hookspecs.HOOKS.values())
    assert all(list(inspect.signature(hook).parameters) == ["register"] for hook in hooks.values())


def test_first_party_plugins_enter_by_entry_points_with_a_version() -> None:
    catalogue = load_catalogue()
    ours = {plugin.name: plugin for plugin in catalogue.plugins if plugin.distribution == "unlearnbench"}
    assert {"core", "retrain", "sisa", "grapheraser", "graphrevoker", "controls", "partitioners", "aggregators"} <= set(
        ours
    )
    assert {plugin.status for plugin in ours.values()} == {"ok"}
    assert {plugin.version for plugin in ours.values()} == {ours["core"].version}
    for kind in hookspecs.KINDS:
        for entry in catalogue.all(kind):
            cls = catalogue.load(entry)
            assert cls.version >= 1
            assert cls.summary
            assert "\n" not in cls.summary
            assert entry.summary
            assert all(info.description for info in cls.Params.model_fields.values()), entry.name
