"""H13: built-in components need what pip installs with the package and nothing more: no compiler, no CUDA device."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from itertools import product
from pathlib import Path

import pytest
from command_line import command, install
from record_samples import make_record
from repository import ROOT

from unlearnbench import hookspecs
from unlearnbench.records.store import Store
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.requirements import requirements_of

__all__ = ["command", "install"]


# Every built-in class is imported where none of the libraries can be that peers wanted at import, and where any
# look at a CUDA device is an error.
IMPORT_ALL = """
import sys

# torch_cluster and torch_spline_conv are left out: PyG itself asks whether they could be found.
ABSENT = {"cupy", "pymetis", "pyg_lib", "torch_sparse", "torch_scatter", "ogb", "dgl", "karateclub", "networkx_metis",
          "matplotlib", "dask", "wandb", "ray", "faiss"}

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ABSENT:
            raise ImportError(name)

sys.meta_path.insert(0, Finder())
import torch
# What PyG looks for itself is its own matter.
import torch_geometric.nn

def refuse(*given, **settings):
    raise AssertionError("a CUDA device was asked for")

for name in ("_lazy_init", "init", "is_available", "device_count", "current_device", "set_device", "get_device_name"):
    setattr(torch.cuda, name, refuse)
from unlearnbench import hookspecs
from unlearnbench.registry.loading import load_catalogue

catalogue = load_catalogue(only=["unlearnbench"], strict=True)
found = [catalogue.load(entry) for kind in hookspecs.KINDS for entry in catalogue.all(kind)]
print(len(found), len(ABSENT & {name.partition(".")[0] for name in sys.modules}))
"""


@pytest.mark.slow
def test_every_built_in_class_is_imported_without_add_ons_and_without_a_look_at_cuda() -> None:
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "0", "CC": "/nowhere/cc", "CXX": "/nowhere/cxx"}
    done = subprocess.run(
        [sys.executable, "-W", "error::ImportWarning", "-c", IMPORT_ALL],
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    number, absent = map(int, done.stdout.split())
    assert number > 60
    assert absent == 0


# What takes a second or more to import and is of no use to a first run.
FIRST_RUN = """
import sys
from unlearnbench import cli

code = 0
try:
    cli.main(["run", "--methods", "sisa,tally", "--epochs", "1", "--repetitions", "1", "--out", "runs"])
except SystemExit as end:
    code = end.code
heavy = {"torch_geometric", "torch._dynamo", "sklearn", "scipy.stats", "matplotlib", "optuna", "sympy"}
print(code, sorted(heavy & set(sys.modules)))
"""


@pytest.mark.slow
def test_a_run_on_digits_imports_nothing_large_but_torch_and_pandas() -> None:
    done = subprocess.run([sys.executable, "-c", FIRST_RUN], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "0 []", done.stderr


REPORT = """
import sys
from unlearnbench import cli

code = 0
try:
    cli.main(["report", *sys.argv[1:]])
except SystemExit as end:
    code = end.code
heavy = {"torch", "torch_geometric", "sklearn", "scipy.stats", "matplotlib", "optuna"}
print(code, sorted(heavy & set(sys.modules)))
"""


@pytest.mark.slow
def test_tables_and_the_page_are_made_without_torch(tmp_path: Path) -> None:
    store = Store(tmp_path / "out", "m-0001")
    for method, repetition in product(("retrain", "sisa"), range(2)):
        store.save(make_record(method, repetition))
    for more in ([], ["--html", str(tmp_path / "page")]):
        done = subprocess.run(
            [sys.executable, "-c", REPORT, str(store.root), *more], capture_output=True, text=True, check=False
        )
        assert done.stdout.splitlines()[-1] == "0 []", done.stderr


def test_what_a_built_in_component_needs_beyond_that_is_one_partitioner() -> None:
    catalogue = load_catalogue(only=["unlearnbench"])
    entries = [entry for kind in hookspecs.KINDS for entry in catalogue.all(kind)]
    needs = {entry.name: [need.pip for need in requirements_of(catalogue.load(entry))] for entry in entries}
    assert {name: found for name, found in needs.items() if found} == {"metis": ["unlearnbench[metis]"]}


def test_what_is_installed_along_comes_as_wheels_and_is_no_add_on_of_pyg() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = {re.split(r"[<>=\[; ]", text)[0] for text in project["dependencies"]}
    assert {"torch", "torch-geometric"} <= names
    assert not names & {"torch-scatter", "torch-sparse", "torch-cluster", "pyg-lib", "pymetis", "cupy", "dgl", "ogb"}
    # Nothing of ours is compiled either.
    assert not [path for suffix in ("pyx", "c", "cc", "cpp", "cu") for path in ROOT.glob(f"[up]*/**/*.{suffix}")]
