"""Plugins for tests: made-up entry points, and small distributions written to a folder on the path."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from unlearnbench.component import Component
from unlearnbench.hookspecs import hookimpl
from unlearnbench.registry.catalogue import Catalogue
from unlearnbench.registry.loading import load_catalogue

Write = Callable[..., Path]


@dataclass
class FakePoint:
    """An entry point that gives `plugin`, or raises it."""

    name: str
    plugin: Any
    distribution: str = "ub-a"
    version: str = "1.0"
    value: str = "made_up"
    dist: Any = field(init=False)

    def __post_init__(self) -> None:
        self.dist = SimpleNamespace(metadata={"Name": self.distribution, "Version": self.version})

    def load(self) -> Any:
        if isinstance(self.plugin, BaseException):
            raise self.plugin
        return self.plugin


def component(name: str, **members: Any) -> type[Component]:
    return type(name.title(), (Component,), {"name": name, "summary": f"A {name}.", **members})


def plugin_of(**announced: Any) -> ModuleType:
    """Make a plugin: `partitioners=[Class, ("name", "module:Class")]`, `unlearners=...`."""
    plugin = ModuleType("made_up")
    for kind, targets in announced.items():
        setattr(plugin, f"register_{kind}", hookimpl(_announce(targets)))
    return plugin


def _announce(targets: Any) -> Callable[[Any], None]:
    def hook(register: Any) -> None:
        for target in targets:
            if isinstance(target, tuple):
                register(*target)
            else:
                register(target)

    return hook


ANNOUNCES = """
from unlearnbench import hookimpl

@hookimpl
def register_partitioners(register):
    register("{name}", "{module}:{cls}", summary="One line.")
"""


def load(*points: FakePoint, **settings: Any) -> Catalogue:
    return load_catalogue(entry_points=points, **settings)


def status_of(catalogue: Catalogue, name: str) -> tuple[str, str]:
    (found,) = (plugin for plugin in catalogue.plugins if plugin.name == name)
    return found.status, found.reason


def raising(error: BaseException) -> ModuleType:
    plugin = ModuleType("raising")

    def register_partitioners(register: Any) -> None:
        raise error

    plugin.register_partitioners = hookimpl(register_partitioners)  # type: ignore[attr-defined]
    return plugin


def source_of(head: str, kind: str, *classes: type) -> str:
    """Write a plugin that announces classes of a test: their own text below what they import."""
    hook = [f"@hookimpl\ndef register_{kind}s(register):", *(f"    register({cls.__name__})" for cls in classes)]
    bodies = [inspect.getsource(cls) for cls in classes]
    return "\n".join([head, "from unlearnbench import hookimpl", *bodies, *hook, ""])


def write_distribution(
    folder: Path, distribution: str, source: str, module: str = "", version: str = "1.0", entry: str = ""
) -> Path:
    """Write a module and what makes it an installed distribution with one plugin.

    `entry` names the plugin, by default as the distribution without `ub-`.
    """
    module = module or distribution.replace("-", "_")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{module}.py").write_text(source, encoding="utf-8")
    info = folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
    plugin = entry or distribution.removeprefix("ub-")
    (info / "entry_points.txt").write_text(f"[unlearnbench]\n{plugin} = {module}\n")
    importlib.invalidate_caches()
    return folder


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Give a function that writes a distribution where this process finds it."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    before = set(sys.modules)

    def write(distribution: str, source: str, **settings: str) -> Path:
        return write_distribution(folder, distribution, source, **settings)

    yield write
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]
    importlib.invalidate_caches()


TOYS = """
import math
import os
import time
from pathlib import Path

import torch

from unlearnbench import Dataset, hookimpl
from unlearnbench.testing.graphs import toy_graph
from unlearnbench import Unlearner


class Toy(Dataset):
    name = "toy"
    summary = "A hundred nodes whose ids are no positions."

    def load(self, root):
        return toy_graph(100, first_id=5000)


class Steady(Unlearner):
    name = "steady"
    summary = "Counts requests."

    def fit(self, task):
        self.weight = torch.zeros(1)

    def unlearn(self, request, retained):
        self.weight = self.weight + 1

    def predict(self, query):
        return torch.full((len(query.targets), query.graph.num_classes), -math.log(query.graph.num_classes))

    def state(self):
        return {"members/000/weight": self.weight}


class Twin(Steady):
    name = "twin"


class Frozen(Steady):
    name = "frozen"

    def fit(self, task):
        self.weight = torch.full((1,), 7.0)

    def unlearn(self, request, retained):
        pass


class Diverging(Steady):
    name = "diverging"

    def unlearn(self, request, retained):
        self.weight = self.weight + math.nan


class Failing(Steady):
    name = "failing"

    def unlearn(self, request, retained):
        if "TOY_FAILS" in os.environ:
            raise RuntimeError("fails on purpose")
        super().unlearn(request, retained)


class Stalling(Steady):
    '''Hangs in its third fit (the first is the warm-up), once TOY_STALLS names a file to tell so.'''

    name = "stalling"
    fits = 0

    def fit(self, task):
        super().fit(task)
        Stalling.fits += 1
        if Stalling.fits == 3 and "TOY_STALLS" in os.environ:
            Path(os.environ["TOY_STALLS"]).touch()
            time.sleep(300)


class Meeting(Steady):
    '''Waits in its first fit until as many processes as it was told to are there.'''

    name = "meeting"

    def fit(self, task):
        super().fit(task)
        place = Path(os.environ["TOY_MEETS"])
        (place / str(os.getpid())).touch()
        until = time.monotonic() + 300
        while len(list(place.iterdir())) < 2:
            if time.monotonic() > until:
                raise RuntimeError("nobody came")
            time.sleep(0.01)


@hookimpl
def register_datasets(register):
    register(Toy)


@hookimpl
def register_unlearners(register):
    for cls in (Steady, Twin, Frozen, Diverging, Failing, Stalling, Meeting):
        register(cls)
"""


# A dataset of 500 nodes of one class among two, 50 of them tested, and a method that is right about as
# many as it is told: score = first + step * repetition.
SCORED = """
import torch
from pydantic import Field

from unlearnbench.protocol import protocol
from unlearnbench import ComponentParams, Dataset, Graph, Unlearner, hookimpl


class OneClass(Dataset):
    name = "one-class"

    def load(self, root):
        nothing = torch.empty(2, 0, dtype=torch.int64)
        return Graph(torch.ones(500, 1), torch.zeros(500, dtype=torch.int64), nothing, torch.arange(500), 2)


class Scored(Unlearner):
    name = "scored"

    class Params(ComponentParams):
        first: float = Field(default=0.0, description="Score of repetition 0.")
        step: float = Field(default=0.1, description="From one repetition to the next.")
        fails: int = Field(default=-1, description="The repetition that fails.")
        diverges: int = Field(default=-1, description="The repetition that diverges.")

    def fit(self, task):
        # A task does not say which repetition it is: its seed does.
        seeds = [protocol.task_seed(0, "one-class", repetition) for repetition in range(10)]
        self.repetition = seeds.index(task.seed) if task.seed in seeds else 0
        self.weight = torch.randn(3, generator=task.generator("init"))

    def unlearn(self, request, retained):
        if self.repetition == self.params.fails:
            raise RuntimeError("fails on purpose")
        self.weight = self.weight + (float("nan") if self.repetition == self.params.diverges else 1)

    def predict(self, query):
        right = round((self.params.first + self.params.step * self.repetition) * len(query.targets))
        answer = torch.zeros(len(query.targets), 2)
        answer[right:, 1] = 9
        answer[:right, 0] = 9
        return torch.log_softmax(answer, dim=1)

    def state(self):
        return {"members/000/weight": self.weight}


@hookimpl
def register_datasets(register):
    register(OneClass)


@hookimpl
def register_unlearners(register):
    register(Scored)
"""
