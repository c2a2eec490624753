"""F2: every command of the README runs as it stands there, in an empty folder; every method runs with no option."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import command, install, records_of
from repository import ROOT
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from unlearnbench.audits import running
from unlearnbench.component import Spec
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.running.config import RunConfig
from unlearnbench.testing.graphs import toy_graph

__all__ = ["command", "install"]

README = (ROOT / "README.md").read_text(encoding="utf-8")
FENCED = [line for block in re.findall(r"^```bash\n(.*?)^```$", README, re.M | re.S) for line in block.splitlines()]
COMMANDS = [shlex.split(line)[1:] for line in FENCED if line.startswith("unlearnbench ")]


# Less than a user may ask of an audit: enough for every step to be taken, too little for a number to mean anything.
FEW = {
    "runs": 2,
    "permutations": 19,
    "shadows": 16,
    "targets": 4,
    "worlds": 2,
    "same_seed": 1,
    "matched": 2,
    "draws": 19,
}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make everything small that a command line leaves open; the commands themselves stay as they are.

    A graph of a hundred nodes stands for every dataset that the README names; training takes two
    epochs; there is one repetition; audits make few runs.
    """
    training, numbers, audits = RunConfig.training_settings, RunConfig.repetition_numbers, running.chosen_audits
    monkeypatch.setattr(RunConfig, "training_settings", lambda config: replace(training(config), epochs=2))
    monkeypatch.setattr(RunConfig, "repetition_numbers", lambda config: numbers(config)[:1])
    monkeypatch.setattr(running, "chosen_audits", lambda *given: [with_few(spec) for spec in audits(*given)])
    for name in ("digits", "cora"):
        dataset = CATALOGUE.load(CATALOGUE.find("dataset", name))
        monkeypatch.setattr(dataset, "load", lambda self, root: toy_graph(100))


def with_few(spec: Spec) -> Spec:
    few = {key: value for key, value in FEW.items() if key in type(spec.params).model_fields}
    return replace(spec, params=spec.params.model_copy(update=few))


def test_the_readme_is_short() -> None:
    # Without the rows of the table of methods, which is looked up rather than read.
    shown = re.sub(r"<!--.*?-->|^\|.*$", "", README, flags=re.M)
    assert len(re.findall(r"\S*\w\S*", shown)) <= 600


def test_the_python_of_the_readme_runs(tmp_path: Path) -> None:
    (snippet,) = re.findall(r"^```python\n(.*?)^```$", README, re.M | re.S)
    nodes = torch.arange(60)
    data = Data(x=torch.eye(60), y=nodes % 3, edge_index=to_undirected(torch.stack([nodes, nodes.roll(1)])))
    told: dict[str, Any] = {"data": data}
    exec(snippet, told)
    assert told["probabilities"].shape[1] == 3


def test_the_readme_has_commands_of_every_kind() -> None:
    assert {arguments[0] for arguments in COMMANDS} == {"run", "report", "audit", "ls"}
    assert len(COMMANDS) >= 6
    # The rest installs the package, which whoever runs these tests has done.
    assert {line.split()[0] for line in FENCED} == {"make", "python3", ".", "pip", "unlearnbench"}


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_every_command_of_the_readme_one_after_the_other_in_an_empty_folder(command: Any, tmp_path: Path) -> None:
    for arguments in COMMANDS:
        told = command(*arguments)
        assert told.code == 0, f"unlearnbench {shlex.join(arguments)}\n{told.err}"
        assert told.out.strip(), arguments
    assert all(record.status == "ok" for record in records_of(tmp_path / "runs").values())


CATALOGUE = load_catalogue(only=["unlearnbench"])
OURS = {entry.name: CATALOGUE.load(entry) for entry in CATALOGUE.all("unlearner")}


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_every_method_of_ours_runs_with_no_option_at_all(command: Any, tmp_path: Path) -> None:
    runnable = [name for name, cls in OURS.items() if cls.models is None]
    told = command("run", "--methods", ",".join(runnable))
    assert told.code == 0, told.err
    records = records_of(tmp_path / "runs")
    assert {method for method, _ in records} == set(runnable)
    assert {record.status for record in records.values()} == {"ok"}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", [name for name, cls in OURS.items() if cls.models is not None])
def test_a_method_that_needs_another_model_says_so_before_any_work_and_then_runs(
    name: str, command: Any, tmp_path: Path
) -> None:
    assert OURS[name].models == {"sgc"}
    told = command("run", "--methods", f"sisa,{name}")
    assert told.code == 2
    assert told.err.splitlines()[-2:] == [
        f"error: {name} cannot be used with the model gcn.",
        f"hint: Add --models sgc, or leave {name} out.",
    ]
    assert not (tmp_path / "runs").exists()
    assert command("run", "--methods", name, "--models", "sgc").code == 0
    # Beside one that fits, the other is refused on its own.
    told = command("run", "--methods", name, "--models", "sgc,gcn", "--no-reference")
    assert told.code == 0
    assert "2 cells: 1 ok, 0 failed, 1 refused, 0 diverged; 1 were there already." in told.err


@pytest.mark.slow
def test_defaults_are_those_of_the_command_line_and_run_to_a_table_in_one_command(command: Any, tmp_path: Path) -> None:
    """The real digits, the real number of epochs and repetitions."""
    told = command("run", "--methods", "steady")
    assert told.code == 0
    assert "6 cells: 6 ok, 0 failed, 0 refused, 0 diverged; 0 were there already." in told.err
    assert "1797 nodes" in told.err
    assert told.out.startswith("Results: digits, gcn on cpu")
