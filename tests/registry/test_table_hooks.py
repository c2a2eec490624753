"""Tables, experiments and looks that plugins bring: found by name, imported when used, harmless when broken."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest
from command_line import command
from plugin_samples import FakePoint, Write, install, load, status_of
from record_samples import make_record

from unlearnbench.errors import NothingMatchedError, UsageError
from unlearnbench.experiments import experiments_with, find_experiment
from unlearnbench.experiments.grids import configs
from unlearnbench.hookspecs import hookimpl
from unlearnbench.registry.catalogue import Catalogue
from unlearnbench.registry.looks import Look
from unlearnbench.report import Table, TableSource, build_tables, frame_of
from unlearnbench.report.figures.colours import find_looks

__all__ = ["command", "install"]

TABLES = """
import pandas as pd
from unlearnbench.report import Table

def names(source):
    data = pd.DataFrame({"method": [row for group in source.groups for row in group.group.rows]})
    yield Table(source.name, f"Names {source.against}.", data, data, ("By hand.",))

def nothing(source):
    return []
"""
GRID = """
source = "Table 9"
tables = ["names"]
[[grid]]
datasets = ["digits"]
models = ["gcn"]
methods = ["sisa"]
"""


def plugin(kind: str, *calls: tuple[tuple[Any, ...], dict[str, Any]]) -> ModuleType:
    """Make a plugin whose hook registers with these arguments, one call after the other."""
    made = ModuleType("made_up")

    def hook(register: Any) -> None:
        for arguments, options in calls:
            register(*arguments, **options)

    setattr(made, f"register_{kind}", hookimpl(hook))
    return made


def table(*arguments: Any, **options: Any) -> ModuleType:
    return plugin("tables", (arguments, options))


def built(catalogue: Catalogue, name: str, against: str = "") -> Table:
    (found,) = build_tables(frame_of([make_record()]), name, against=against, catalogue=catalogue)
    return found


# --- tables


def test_a_table_is_imported_when_it_is_asked_for(install: Write) -> None:
    install("ub-names", TABLES)
    catalogue = load(FakePoint("names", table("names", "ub_names:names", summary="Names.")))
    assert "table names" in catalogue.plugins[-1].components
    assert "ub_names" not in sys.modules
    assert built(catalogue, "names").notes == ("By hand.", "Made by: unlearnbench report results --table names")


def test_a_function_can_be_announced_itself() -> None:
    def none(source: TableSource) -> list[Table]:
        return []

    catalogue = load(FakePoint("none", table("none", none)))
    with pytest.raises(NothingMatchedError, match="Table none: nothing in these records is what it compares"):
        built(catalogue, "none")


def test_published_numbers_have_a_name_of_their_own(install: Write) -> None:
    install("ub-names", TABLES)
    announced = plugin(
        "tables",
        (("names", "ub_names:names"), {}),
        (("names", "ub_names:names"), {"against": "rong-2020"}),
        (("others", "ub_names:names"), {"against": "lee-2021"}),
        (("twice", "ub_names:names"), {"against": "lee-2021"}),
        (("twice", "ub_names:names"), {"against": "rong-2020"}),
        (("more", "ub_names:nothing"), {}),
    )
    catalogue = load(FakePoint("names", announced))
    assert built(catalogue, "names").caption == "Names ."
    against = built(catalogue, "names", "rong-2020")
    assert against.caption == "Names rong-2020."
    assert against.notes[-1].endswith("--table names --against rong-2020")
    # There is only one way to show it, so nobody needs to ask for it.
    assert built(catalogue, "others").caption == "Names lee-2021."
    with pytest.raises(UsageError, match="--against lee-2021 or --against rong-2020"):
        built(catalogue, "twice")
    assert built(catalogue, "twice", "lee-2021").caption == "Names lee-2021."
    with pytest.raises(UsageError, match="always stands against the lee-2021"):
        built(catalogue, "others", "lee-2021")
    with pytest.raises(UsageError, match=r"The rong-2020 has no numbers for table 'more'.\nIt has for: names"):
        built(catalogue, "more", "rong-2020")
    with pytest.raises(UsageError, match="Did you mean rong-2020"):
        built(catalogue, "names", "rong-2002")
    with pytest.raises(UsageError, match="Did you mean names"):
        built(catalogue, "nmaes")


def test_a_name_of_two_distributions_is_an_error_that_names_both(install: Write) -> None:
    install("ub-names", TABLES)
    points = [FakePoint("one", table("names", "ub_names:names"), "ub-one")]
    points.append(FakePoint("two", table("names", "ub_names:nothing"), "ub-two"))
    catalogue = load(*points)
    with pytest.raises(UsageError, match="ub-one:names or ub-two:names"):
        built(catalogue, "names")
    assert built(catalogue, "ub-one:names").caption == "Names ."


def test_the_core_keeps_its_names() -> None:
    catalogue = load(FakePoint("thief", table("utility", "a:b")), FakePoint("fine", table("mine", "a:b"), "ub-z"))
    assert status_of(catalogue, "thief")[0] == "failed"
    assert "'utility' of ub-a is taken by unlearnbench" in status_of(catalogue, "thief")[1]
    assert status_of(catalogue, "fine") == ("ok", "")


@pytest.mark.parametrize(
    ("kind", "arguments", "options", "said"),
    [
        ("tables", ("names",), {}, "expected a name and 'module:function' or a function"),
        ("tables", ("names", "nowhere"), {}, "expected a name and 'module:function'"),
        ("tables", (print,), {}, "expected a name"),
        ("tables", ("two words", "a:b"), {}, "cannot be written on a command line"),
        ("tables", ("names", "a:b"), {"against": "two words"}, "published numbers' name 'two words'"),
        ("tables", ("names", "a:b"), {"reads": "all"}, "reads='all'"),
        ("tables", ("names", "a:b"), {"look": ("#000000", "star")}, "takes no argument 'look'"),
        ("experiments", ("grid", "grid.toml"), {}, "expected a name and 'package:file.toml'"),
        ("experiments", ("grid", print), {}, "expected a name and 'package:file.toml'"),
        ("models", ("net", "a:b"), {"against": "paper"}, "takes no argument 'against'"),
        ("unlearners", ("net", "a:b"), {"look": "blue"}, "expected a colour and a shape"),
        ("unlearners", ("net", "a:b"), {"look": ("#0072B2", "blob")}, "expected a colour and a shape"),
        ("unlearners", ("net", "a:b"), {"look": ("blue", "star")}, "expected a colour and a shape"),
    ],
)
def test_a_call_that_makes_no_sense_fails_its_plugin_alone(
    kind: str, arguments: tuple[Any, ...], options: dict[str, Any], said: str
) -> None:
    catalogue = load(
        FakePoint("odd", plugin(kind, (arguments, options))), FakePoint("fine", table("mine", "a:b"), "ub-z")
    )
    status, reason = status_of(catalogue, "odd")
    assert status == "failed"
    assert said in reason
    assert status_of(catalogue, "fine") == ("ok", "")


def test_a_table_that_cannot_be_imported_is_told_with_its_distribution() -> None:
    catalogue = load(FakePoint("lost", table("lost", "ub_nowhere:lost"), "ub-lost"))
    with pytest.raises(UsageError, match="The table 'lost' of ub-lost cannot be imported: ModuleNotFoundError"):
        built(catalogue, "lost")
    assert built(catalogue, "summary").name == "summary"


# --- experiments


def experiment(install: Write, text: str) -> Catalogue:
    folder = install("ub-grids", "")
    (folder / "ub_package").mkdir(exist_ok=True)
    (folder / "ub_package" / "__init__.py").write_text("")
    (folder / "ub_package" / "grid.toml").write_text(text)
    return load(FakePoint("grids", plugin("experiments", (("grid", "ub_package:grid.toml"), {"summary": "A grid."}))))


def test_an_experiment_is_a_file_in_a_package(install: Write) -> None:
    catalogue = experiment(install, GRID)
    found = find_experiment("grid", catalogue)
    assert (found.title, found.source, found.tables) == ("A grid.", "Table 9", ("names",))
    (config,) = configs(found, {"repetitions": 2})
    assert (config.datasets, config.repetitions) == (["digits"], 2)
    assert list(experiments_with("names", catalogue)) == ["grid"]


@pytest.mark.parametrize(
    ("text", "said"), [("=", "TOMLDecodeError"), ("", "KeyError: 'grid'"), ("[[grid]]", "a grid has no datasets")]
)
def test_a_file_that_is_no_experiment_is_told(install: Write, text: str, said: str) -> None:
    catalogue = experiment(install, text)
    with pytest.raises(UsageError, match="The experiment 'grid' of ub-a cannot be read") as caught:
        find_experiment("grid", catalogue)
    assert said in str(caught.value)
    assert list(experiments_with("names", catalogue)) == []


# --- looks


def test_a_method_is_drawn_as_its_plugin_says() -> None:
    announced = plugin("unlearners", (("mine", "a:b"), {"look": ("#123456", "star")}), (("plain", "a:b"), {}))
    looks = find_looks(load(FakePoint("mine", announced)))
    assert looks.of("mine") == Look("#123456", "star")
    assert looks.of("plain") == find_looks(load()).of("plain")


# --- commands


def test_tables_and_experiments_are_listed_and_shown(command: Any) -> None:
    lines = command("ls", "table").out.splitlines()
    for name in ("summary ", "claims ", "utility --against paper "):
        assert any(line.startswith(name) for line in lines), name
    assert any(line.startswith("cost ") for line in command("ls", "experiment").out.splitlines())
    told = command("show", "claims")
    assert told.code == 0
    assert "against: paper" in told.out
    assert "kind: experiment" in command("show", "cost", "--kind", "experiment").out
    assert command("show", "cost").out.splitlines()[1] == "kind: table"
    told = command("plugins")
    assert "  table claims --against paper" in told.out
    assert "  experiment www24-poison" in told.out


def test_an_unknown_table_is_told_before_any_record_is_read(command: Any) -> None:
    told = command("report", "no-such-folder", "--table", "utilty")
    assert told.code == 2
    assert "Did you mean utility" in told.err
    assert "unlearnbench ls table" in told.err
