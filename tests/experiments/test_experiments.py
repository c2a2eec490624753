"""Experiments of the package: every one can be planned, narrowed and extended."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from command_line import command, install
from plugin_samples import TOYS

from unlearnbench.errors import UsageError
from unlearnbench.experiments import find_experiment
from unlearnbench.experiments.grids import configs
from unlearnbench.registry.catalogue import Catalogue, Entry
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.running import lookup
from unlearnbench.running import plan as planning
from unlearnbench.running.config import RunConfig, make_config
from unlearnbench.task import Training

__all__ = ["command", "install"]

NAMES = load_catalogue().names("experiment")


@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_names_only_what_there_is(name: str) -> None:
    experiment = find_experiment(name)
    catalogue = load_catalogue()
    assert experiment.title
    assert experiment.source
    for config in configs(experiment, {}):
        for kind, names in (("unlearner", config.methods), ("model", config.models), ("dataset", config.datasets)):
            for bracket in config.brackets(names):
                resolve(catalogue, kind, bracket)


def test_the_papers_grid_is_whole() -> None:
    found = configs(find_experiment("graphrevoker-www24"), {})
    assert [config.datasets for config in found] == [["cora", "citeseer", "lastfm-asia"], ["flickr"]]
    for config in found:
        assert config.models == ["gat", "gcn", "sage", "appnp", "jknet"]
        assert config.repetition_numbers() == list(range(10))
        assert config.forget_amount().ratio == 0.005
        assert {"grapheraser[preset=paper]", "graphrevoker[preset=released]", "noop"} <= set(map(str, config.methods))
        assert config.reference


@pytest.mark.parametrize("name", [name for name in NAMES if "www24" in name and "poison" not in name])
def test_on_flickr_the_papers_mini_batches_are_used(name: str) -> None:
    (flickr,) = configs(find_experiment(name), {"datasets": ["flickr"]})
    assert flickr.training_settings() == Training(epochs=20, batch_size=512)
    (cora,) = configs(find_experiment(name), {"datasets": ["cora"]})
    assert cora.training_settings() == Training()


def test_the_factorial_multiplies_partitioners_with_aggregators() -> None:
    (config,) = configs(find_experiment("factorial"), {})
    assert len(config.brackets(config.methods)) == 25


def test_what_grids_share_stands_once_and_a_grids_own_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shared_grids").mkdir()
    text = """
[common]
datasets = ["cora", "citeseer"]
models = ["gcn"]
repetitions = 10
methods = ["sisa"]

[[grid]]

[[grid]]
repetitions = 1
models = ["gat"]
"""
    (tmp_path / "shared_grids" / "__init__.py").touch()
    (tmp_path / "shared_grids" / "both.toml").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    entry = Entry("experiment", "both", "shared_grids:both.toml", "Both.", "shared-grids", "1", "shared")
    catalogue = Catalogue()
    catalogue.entries["experiment"]["both"] = [entry]
    first, second = configs(find_experiment("both", catalogue), {})
    assert (first.datasets, first.models, first.repetitions) == (["cora", "citeseer"], ["gcn"], 10)
    assert (second.datasets, second.models, second.repetitions) == (["cora", "citeseer"], ["gat"], 1)
    assert first.methods == second.methods == ["sisa"]


def test_datasets_and_models_narrow_methods_are_added_the_rest_replaces() -> None:
    given = {"datasets": ["citeseer"], "models": ["gcn"], "methods": ["steady"], "repetitions": 2}
    (config,) = configs(find_experiment("graphrevoker-www24"), given)
    assert (config.datasets, config.models, config.repetitions) == (["citeseer"], ["gcn"], 2)
    assert config.methods[-1] == "steady"
    assert "sisa" in config.methods
    config, _ = configs(find_experiment("graphrevoker-www24"), {"seeds": [3, 4]})
    assert config.repetition_numbers() == [3, 4]


def test_what_an_experiment_does_not_have_is_told() -> None:
    with pytest.raises(UsageError, match="no dataset 'pubmed'") as caught:
        configs(find_experiment("www24-poison"), {"datasets": ["pubmed"]})
    assert "cora, citeseer" in caught.value.hint
    with pytest.raises(UsageError, match="Unknown experiment"):
        find_experiment("graphrevoker-www42")


def test_grids_become_one_plan_with_every_cell_once(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    grid: dict[str, Any] = {"datasets": ["toy"], "methods": ["steady"], "repetitions": 2}

    def two(*arguments: Any) -> list[RunConfig]:
        return [RunConfig(**grid, epochs=2), RunConfig(**{**grid, "repetitions": 3}, epochs=2)]

    monkeypatch.setattr("unlearnbench.experiments.grids.configs", two)
    told = command("run", "--experiment", "cost", "--dry-run")
    lines = [line for line in told.out.splitlines() if "steady" in line]
    assert len(lines) == len(set(lines)) == 3


@pytest.mark.slow
def test_a_plan_of_several_grids_reads_each_thing_once(
    install: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("ub-toys", TOYS)
    calls = Counter[str]()

    def counted(module: Any, name: str) -> None:
        original = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *given, **more: calls.update([name]) or original(*given, **more))

    counted(lookup, "load_graph")
    counted(planning, "describe_machine")
    counted(planning, "provenance")
    grid = {"datasets": ["toy", "digits"], "methods": ["steady"], "repetitions": 1, "out": tmp_path, "device": "cpu"}
    grids = [make_config({**grid, "epochs": epochs}) for epochs in (1, 2, 3)]
    plan = planning.make_plan(grids, load_catalogue())
    assert calls == {"load_graph": 2, "describe_machine": 1, "provenance": 1}
    alone = [planning.make_plan(each, load_catalogue()) for each in grids]
    assert [cell.key for cell in plan.cells] == [cell.key for each in alone for cell in each.cells]


def test_a_dataset_that_cannot_be_had_stops_a_run_unless_it_may_be_skipped(command: Any, tmp_path: Path) -> None:
    asked = ("run", "-m", "steady", "-d", "toy,cora,citeseer", "--epochs", "1", "--offline", "--data-root", "none")
    told = command(*asked)
    assert told.code == 2
    assert "Dataset cora" in told.err
    assert "Dataset citeseer" in told.err
    assert "--skip-missing" in told.err
    told = command(*asked, "--skip-missing", "--repetitions", "1")
    assert told.code == 0
    assert "left out: Dataset cora" in told.err
    assert len(list(tmp_path.glob("runs/records/*/toy/*/*.json"))) == 2
    told = command("run", "-m", "steady", "-d", "cora", "--offline", "--data-root", "none", "--skip-missing")
    assert told.code == 2
