"""What a component needs and is not there is told before the first cell, with the line for pip."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from command_line import ONCE, command, install, records_of
from plugin_samples import TOYS, Write
from repository import ROOT

import unlearnbench
from unlearnbench.component import Component
from unlearnbench.errors import UsageError
from unlearnbench.registry.requirements import require_module, requirements_of

__all__ = ["command", "install"]

# One component of each kind that a cell is made of, each with a need of its own.
NEEDY = """
import torch
from ub_toys import Steady, Toy

from unlearnbench import Aggregator, Metric, Model, Partitioner, StackedModel, hookimpl


class Needy(Steady):
    name = "needy"
    requires = {"pkg_nope": "pkg-nope"}

    def fit(self, task):
        import pkg_nope


class Cutting(Partitioner):
    name = "cutting"
    requires = {"pkg_nope.deep": "ub-needy[cut]>=2"}

    def partition(self, task, num_shards):
        return torch.arange(task.graph.num_nodes) % num_shards


class Voting(Aggregator):
    name = "voting"
    requires = {"json": "pkg-json", "pkg_vote": "pkg-vote"}

    def combine(self, members):
        return torch.log_softmax(members.logits.mean(dim=0), dim=1)


class Far(Toy):
    name = "far"
    requires = {"pkg_data": "pkg-data"}

    def load(self, root):
        raise AssertionError("loaded before its needs were checked")


class Net(Model):
    name = "net"
    requires = {"pkg_net": "pkg-net"}

    def build(self, num_features, num_classes, generator):
        raise AssertionError("built")


class Score(Metric):
    name = "score"
    requires = {"pkg_score": "pkg-score"}

    def score(self, labels, log_probabilities):
        return 0.5


@hookimpl
def register_unlearners(register):
    register(Needy)


@hookimpl
def register_partitioners(register):
    register(Cutting)


@hookimpl
def register_aggregators(register):
    register(Voting)


@hookimpl
def register_datasets(register):
    register(Far)


@hookimpl
def register_models(register):
    register(Net)


@hookimpl
def register_metrics(register):
    register(Score)
"""
NESTED = "sharded[partitioner=cutting,aggregator=voting,num_shards=3]"


def test_a_module_that_is_not_installed_is_told_apart_from_one_that_cannot_be_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    sources = {
        "ub_whole": "",
        "ub_torn": "raise OSError('libmetis.so: cannot open shared object file')",
        "ub_leaning": "import ub_gone",
        "ub_leaving": "raise SystemExit(3)",
        "ub_inner": "import ub_inner_part",
    }
    for name, source in sources.items():
        (tmp_path / f"{name}.py").write_text(source)
    found = {name: require_module(name, "ub-x") for name in [*sources, "ub_nope", "ub_nope.part", "ub_whole.part"]}
    assert {name: (need.is_met, need.reason) for name, need in found.items()} == {
        "ub_whole": (True, ""),
        "ub_torn": (False, "OSError: libmetis.so: cannot open shared object file"),
        "ub_leaning": (False, "ModuleNotFoundError: No module named 'ub_gone'"),
        "ub_leaving": (False, "SystemExit: 3"),
        "ub_inner": (False, "ModuleNotFoundError: No module named 'ub_inner_part'"),
        "ub_nope": (False, ""),
        "ub_nope.part": (False, ""),
        "ub_whole.part": (False, ""),
    }


@pytest.mark.parametrize(
    ("pip", "line"),
    [
        ("cupy", "pip install cupy"),
        ("unlearnbench[metis]", 'pip install "unlearnbench[metis]"'),
        ("pkg>=2", 'pip install "pkg>=2"'),
    ],
)
def test_the_line_for_pip_can_be_pasted_into_a_shell(pip: str, line: str) -> None:
    assert require_module("ub_nope", pip).remedy == line


@pytest.mark.parametrize("requires", [["pymetis"], {"pymetis": None}, {"": "x"}, {"pymetis": ""}, "pymetis", None])
def test_requires_that_is_no_mapping_of_texts_is_refused(requires: Any) -> None:
    with pytest.raises(UsageError, match=r"Wrong\.requires is") as error:
        requirements_of(type("Wrong", (Component,), {"requires": requires}))
    assert "unlearnbench[metis]" in error.value.hint


@pytest.mark.parametrize("flags", [(), ("--dry-run",), ("--tolerate-failures",)])
def test_the_third_of_three_cells_stops_the_run_before_the_first(
    command: Any, install: Write, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    install("ub-needy", NEEDY)
    out = tmp_path / "out"
    told = command("run", "-m", "steady,twin,needy", *ONCE, "--no-reference", "--out", str(out), *flags)
    assert told.code == 2
    assert told.err.splitlines()[-2:] == [
        "error: The unlearner 'needy' needs the module 'pkg_nope', which is not installed.",
        "hint: pip install pkg-nope",
    ]
    assert not out.exists()


def test_parts_of_parts_datasets_and_models_are_looked_at_and_all_is_told_at_once(
    command: Any, install: Write, tmp_path: Path
) -> None:
    site = install("ub-needy", NEEDY)
    (site / "pkg_vote.py").write_text("raise OSError('libvote.so is gone')")
    arguments = ("--datasets", "toy,far", "--models", "gcn,net", "--out", str(tmp_path / "out"))
    told = command("run", "-m", f"steady,{NESTED}", *arguments)
    assert told.code == 2
    assert told.err.splitlines()[-8:] == [
        "error: The dataset 'far' needs the module 'pkg_data', which is not installed.",
        "The model 'net' needs the module 'pkg_net', which is not installed.",
        f"The partitioner 'cutting' of {NESTED} needs the module 'pkg_nope.deep', which is not installed.",
        f"The aggregator 'voting' of {NESTED} needs the module 'pkg_vote',"
        " which is installed but cannot be imported: OSError: libvote.so is gone.",
        "hint: pip install pkg-data",
        "pip install pkg-net",
        'pip install "ub-needy[cut]>=2"',
        "pip install pkg-vote",
    ]
    assert not (tmp_path / "out").exists()


def test_what_is_there_runs_and_an_unused_need_costs_nobody(command: Any, install: Write, tmp_path: Path) -> None:
    site = install("ub-needy", NEEDY)
    out = tmp_path / "out"
    told = command("run", "-m", "steady", *ONCE, "--out", str(out))
    assert told.code == 0
    assert "note: The metric 'score' is left out. The metric 'score' needs the module 'pkg_score'" in told.err
    assert "pip install pkg-score" in told.err
    assert set(records_of(out)["steady", 0].metrics) == {"f1_macro", "f1_micro", "val_f1_macro", "val_f1_micro"}
    (site / "pkg_nope").mkdir()
    for name in ("pkg_nope/__init__.py", "pkg_nope/deep.py", "pkg_vote.py", "pkg_score.py"):
        (site / name).write_text("")
    told = command("run", "-m", f"needy,{NESTED}", *ONCE, "--out", str(out), "--overwrite", "always")
    assert "left out" not in told.err
    records = records_of(out)
    assert records["sharded", 0].status == "ok"
    assert "score" in records["sharded", 0].metrics


def test_from_python_too(install: Write, tmp_path: Path) -> None:
    install("ub-toys", TOYS)
    install("ub-needy", NEEDY)
    with pytest.raises(UsageError, match=r"'pkg_nope\.deep', which is not installed") as error:
        unlearnbench.run(["sharded[partitioner=cutting]"], out=tmp_path / "out")
    assert error.value.hint == 'pip install "ub-needy[cut]>=2"'
    assert not (tmp_path / "out").exists()


def test_show_and_doctor_say_what_is_needed(command: Any, install: Write) -> None:
    site = install("ub-needy", NEEDY)
    (site / "pkg_vote.py").write_text("raise OSError('libvote.so is gone')")
    shown = command("show", NESTED)
    assert shown.code == 0
    assert [line for line in shown.out.splitlines() if line.startswith("Needs: ")] == [
        'Needs: pkg_nope.deep of the partitioner cutting, not installed: pip install "ub-needy[cut]>=2"',
        "Needs: json of the aggregator voting, installed",
        "Needs: pkg_vote of the aggregator voting, installed, but cannot be imported: OSError: libvote.so is gone",
    ]
    assert "num_shards = 3" in shown.out
    assert "Needs: pkg_nope, not installed: pip install pkg-nope" in command("show", "needy").out
    assert "Needs" not in command("show", "sisa").out
    told = command("doctor")
    assert told.code == 0
    for line in (
        'partitioner cutting: pkg_nope.deep is not installed: pip install "ub-needy[cut]>=2"',
        "aggregator voting: json is installed",
        "aggregator voting: pkg_vote is installed, but cannot be imported: OSError: libvote.so is gone",
        "unlearner needy: pkg_nope is not installed: pip install pkg-nope",
        "dataset far: pkg_data is not installed: pip install pkg-data",
        "model net: pkg_net is not installed: pip install pkg-net",
        "metric score: pkg_score is not installed: pip install pkg-score",
    ):
        assert f"need        {line}" in told.out.splitlines()


def extras_named(text: str) -> set[str]:
    return {name for found in re.findall(r"\bunlearnbench\[([\w,-]+)\]", text) for name in found.split(",")}


def test_every_extra_that_is_named_exists() -> None:
    patterns = ("*.md", "docs/*.md", "plugins/*/*.md", "unlearnbench/**/*.py", "plugins/**/*.py")
    paths = [path for pattern in patterns for path in ROOT.glob(pattern)]
    named = {path.relative_to(ROOT).as_posix(): extras_named(path.read_text(encoding="utf-8")) for path in paths}
    assert named["unlearnbench/cli/doctor.py"] == {"metis"}
    known = set(metadata.metadata("unlearnbench").get_all("Provides-Extra") or [])
    assert "metis" in known
    assert {path: extras - known for path, extras in named.items() if extras - known} == {}


@pytest.mark.slow
def test_built_in_methods_need_no_compiled_add_on(tmp_path: Path) -> None:
    script = textwrap.dedent("""
        import sys

        class Absent:
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] in {"pyg_lib", "torch_sparse", "torch_scatter", "cupy", "pymetis", "ogb", "dgl"}:
                    raise ImportError(name)

        sys.meta_path.insert(0, Absent())
        import unlearnbench
        records = unlearnbench.run(
            ["sisa", "grapheraser", "graphrevoker"], out=sys.argv[1], epochs=2, num_shards=3, repetitions=1
        )
        assert [r.status for r in records] == ["ok"] * 4, records
    """)
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
