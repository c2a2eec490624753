"""C6: a cell gives the same numbers alone, in any order, in another process and beside others; on a CPU bit for bit."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from command_line import command, install, records_of
from plugin_samples import TOYS, Write, write_distribution
from repository import ROOT

from unlearnbench import seeds
from unlearnbench.running.process_guard import seeded_process_state

pytestmark = pytest.mark.slow

__all__ = ["command", "install"]

STATEFUL = """
import os
import random

import numpy as np
import torch
from ub_toys import Steady

from unlearnbench import hookimpl


class Careless(Steady):
    '''Draws from every global generator that a process has.'''

    name = "careless"

    def fit(self, task):
        self.weight = self.drawn()

    def unlearn(self, request, retained):
        self.weight = self.weight + self.drawn()

    def drawn(self):
        return torch.tensor([random.random(), np.random.rand(), torch.rand(1).item()])

    def predict(self, query):
        return torch.log_softmax(torch.rand(len(query.targets), query.graph.num_classes), dim=1)


class Meddling(Careless):
    '''Changes what all methods of a process share.'''

    name = "meddling"

    def unlearn(self, request, retained):
        super().unlearn(request, retained)
        random.seed(1)
        np.random.seed(1)
        torch.manual_seed(1)
        torch.set_default_dtype(torch.float64)
        torch.set_num_threads(2)
        torch.set_grad_enabled(False)
        os.chdir("/")


class Undecided(Steady):
    '''Uses an operation that torch has no deterministic form of.'''

    name = "undecided"

    def unlearn(self, request, retained):
        self.weight = torch.zeros(3).put_(torch.tensor([0, 1]), torch.ones(2))


@hookimpl
def register_unlearners(register):
    for cls in (Careless, Meddling, Undecided):
        register(cls)
"""
BUILT_IN = "graphrevoker[num_shards=3,partitioner.epochs=2,aggregator.epochs=2]"
ALL = ("-d", "toy", "--epochs", "2", "--no-reference")


def outcomes(out: Path) -> dict[tuple[str, int], Any]:
    """All that a cell gives but times, memory and where it ran."""
    found = {}
    for name, record in records_of(out).items():
        (path,) = out.rglob(f"{record.key}.npz")
        with np.load(path) as arrays:
            content = {key: (arrays[key].dtype.str, arrays[key].shape, arrays[key].tobytes()) for key in arrays}
        fields = (record.status, record.key, record.metrics, record.counts, record.digests, record.partition)
        found[name] = (*fields, record.requests, content)
    return found


@pytest.fixture
def stateful(command: Any, install: Write) -> Any:
    install("ub-stateful", STATEFUL)
    return command


def test_the_order_of_cells_changes_nothing(stateful: Any, tmp_path: Path) -> None:
    found = []
    orders = (f"meddling,careless,{BUILT_IN}", f"{BUILT_IN},careless,meddling", "careless", BUILT_IN)
    for number, methods in enumerate(orders):
        torch.manual_seed(number)
        # Named as a user does, below the current folder, which a method may leave.
        told = stateful("run", "-m", methods, *ALL, "--repetitions", "2", "--out", f"out-{number}")
        assert told.code == 0, told.err
        assert Path.cwd() == tmp_path
        found.append(outcomes(tmp_path / f"out-{number}"))
    assert len(found[0]) == 6
    assert found[1] == found[0]
    assert found[2] == {name: value for name, value in found[0].items() if name[0] == "careless"}
    assert found[3] == {name: value for name, value in found[0].items() if name[0] == "graphrevoker"}
    # Repetitions are none the less different.
    assert found[2]["careless", 0][4]["before"] != found[2]["careless", 1][4]["before"]


@pytest.mark.long
def test_two_processes_at_once_give_what_one_gives(stateful: Any, tmp_path: Path) -> None:
    arguments = ("run", "-m", "meddling,careless,sisa[num_shards=3,aggregator=stacking]", *ALL, "--seeds")
    site = tmp_path / "other-site"
    write_distribution(site, "ub-toys", TOYS)
    write_distribution(site, "ub-stateful", STATEFUL)
    source = ROOT
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (site, source, source / "plugins")))}
    two = ("--out", str(tmp_path / "two"))
    command = [sys.executable, "-m", "unlearnbench", *arguments, "1", *two]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as other:
        assert stateful(*arguments, "0", *two).code == 0
        _, said = other.communicate(timeout=300)
    assert other.returncode == 0, said.decode()
    assert stateful(*arguments, "0,1", "--out", str(tmp_path / "one")).code == 0
    found = outcomes(tmp_path / "two")
    assert len(found) == 6
    assert found == outcomes(tmp_path / "one")


@pytest.fixture
def same_mode() -> Iterator[None]:
    assert not torch.are_deterministic_algorithms_enabled()
    yield
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.usefixtures("same_mode")
def test_the_switch_is_recorded_and_changes_no_bit_on_a_cpu(stateful: Any, tmp_path: Path) -> None:
    methods = f"sisa[num_shards=3],gif,{BUILT_IN},careless"
    arguments = ("run", "-m", methods, *ALL, "--repetitions", "1", "--device", "cpu")
    told = stateful(*arguments, "--out", str(tmp_path / "plain"))
    assert "deterministic" not in told.err
    told = stateful(*arguments, "--deterministic", "--out", str(tmp_path / "switched"))
    assert told.code == 0, told.err
    assert ", cpu, threads 1, deterministic" in told.err
    assert outcomes(tmp_path / "switched") == outcomes(tmp_path / "plain")
    for folder, mode in (("plain", False), ("switched", True)):
        for record in records_of(tmp_path / folder).values():
            assert record.provenance["deterministic"] is mode
            assert record.provenance["device"] == "cpu"


@pytest.mark.usefixtures("same_mode")
def test_an_operation_without_a_deterministic_form_is_named_and_the_others_go_on(stateful: Any, tmp_path: Path) -> None:
    arguments = ("-m", "undecided,steady", *ALL, "--repetitions", "1", "--out", str(tmp_path / "out"))
    told = stateful("run", *arguments, "--deterministic")
    assert told.code == 1
    assert "2 cells: 1 ok, 1 failed" in told.err
    assert "put_ does not have a deterministic implementation" in told.err
    # Without the switch the same cell is run again, and works.
    told = stateful("run", *arguments)
    assert told.code == 0
    assert "2 cells: 2 ok" in told.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(("--deterministic", "false"), "(false)"), (("--deterministic=false",), "does not take a value")],
)
def test_the_switch_takes_no_value(stateful: Any, tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    told = stateful("run", "-m", "steady", *ALL, "--out", str(tmp_path / "out"), *arguments)
    assert told.code == 2
    assert said in told.err
    assert not (tmp_path / "out").exists()


def test_global_chance_starts_from_the_key_and_everything_is_put_back(tmp_path: Path) -> None:
    def drawn() -> tuple[float, float, float]:
        return random.random(), float(np.random.rand()), float(torch.rand(1))  # noqa: NPY002

    cpu, folder = torch.device("cpu"), Path.cwd()
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    torch.manual_seed(5)
    before = drawn()
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    torch.manual_seed(5)
    found = []
    for key in (3, 3, 2**63 - 1):
        with contextlib.suppress(KeyError), seeded_process_state(key, cpu):
            found.append(drawn())
            torch.set_default_dtype(torch.float64)
            torch.set_default_device("meta")
            torch.set_grad_enabled(False)
            torch.set_num_threads(2)
            os.chdir(tmp_path)
            raise KeyError
        assert torch.get_default_dtype() == torch.float32
        assert torch.empty(1).device == cpu
        assert torch.is_grad_enabled()
        assert torch.get_num_threads() == 1
        assert Path.cwd() == folder
    assert found[0] == found[1] != found[2]
    assert drawn() == before


def test_seeds_depend_on_their_role_alone() -> None:
    first = seeds.seed(0, "task", "cora", 0)
    torch.manual_seed(1)
    random.seed(1)
    assert seeds.seed(0, "task", "cora", 0) == first
    others = [(1, "task", "cora", 0), (0, "task", "cora", 1), (0, "task", "citeseer", 0), (0, "request", "cora", 0)]
    assert len({first, *(seeds.seed(*role) for role in others)}) == 5
    # Roles are not run together.
    assert seeds.seed(0, "a", "bc") != seeds.seed(0, "ab", "c")
