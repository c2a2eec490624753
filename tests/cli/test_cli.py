"""The command line: what it prints, how it ends, and what it leaves behind, also when it is killed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from command_line import ONCE, SHARDS, SMALL, command, files_of, install, records_of
from plugin_samples import Write

from unlearnbench.cli import COMMANDS, cli, report
from unlearnbench.cli.program import as_typed, program
from unlearnbench.hookspecs import HOOKS
from unlearnbench.records.record import read_record
from unlearnbench.registry.builtin import FIGURES, TABLES
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.report.tables.core import EVERY_GROUP
from unlearnbench.report.tables.index import find_table

__all__ = ["command", "install"]


def test_help_names_every_command_and_each_has_its_own() -> None:
    runner = CliRunner()
    said = runner.invoke(cli, ["--help"])
    assert said.exit_code == 0
    for name, line in COMMANDS.items():
        assert f"{name} " in said.output
        assert line in " ".join(said.output.split())
        assert runner.invoke(cli, [name, "--help"]).exit_code == 0
    assert runner.invoke(cli, ["--version"]).output.startswith("unlearnbench, version ")


@pytest.mark.parametrize(("name", "close"), [("rnu", "run"), ("leaderbord", "leaderboard"), ("repor", "report")])
def test_a_misspelt_command_names_the_nearest(command: Any, name: str, close: str) -> None:
    told = command(name)
    assert told.code == 2
    assert f"Did you mean {close}?" in told.err


@pytest.mark.parametrize("kind", [*HOOKS, "method"])
def test_ls_lists_names_summaries_and_distributions(command: Any, kind: str) -> None:
    told = command("ls", kind)
    assert told.code == 0
    if kind == "method":
        assert told.out == command("ls", "unlearner").out
        names = [line.split()[0] for line in told.out.splitlines()]
        assert names == sorted(names)
        (steady,) = (line for line in told.out.splitlines() if line.startswith("steady "))
        assert steady.endswith("  Counts requests.  (ub-toys 1.0)")
    if kind == "audit":
        assert {"exactness", "controls", "distance", "membership", "relearning", "partition-leakage"} <= {
            line.split()[0] for line in told.out.splitlines()
        }
    rows = json.loads(command("ls", kind, "--json").out)
    assert len(rows) == len(told.out.splitlines())
    assert all(set(row) == {"name", "summary", "distribution"} for row in rows)


def test_ls_of_an_unknown_kind(command: Any) -> None:
    told = command("ls", "partitoner")
    assert told.code == 2
    assert "partitioner" in told.err


def test_show_gives_parameters_of_all_parts_with_their_values(command: Any) -> None:
    told = command("show", "sharded[num_shards=3,partitioner=bekm[slack=0.25]]")
    assert told.code == 0
    assert told.out.startswith("sharded, method, version 1, from unlearnbench\n")
    lines = [line.split("    ")[0].strip() for line in told.out.splitlines() if " = " in line]
    assert "num_shards = 3" in told.out
    assert "partitioner = bekm" in told.out
    assert "slack = 0.25" in told.out
    assert len(lines) >= 4
    places = [line.index(" = ") for line in told.out.splitlines() if line.startswith("  num_shards = ")]
    assert len(places) == 1
    presets = command("show", "graphrevoker").out
    assert "Link: https://arxiv.org/abs/2403.07353" in presets
    assert "@inproceedings{zhang2024graph,\n  author    = {Zhang, Jiahao and " in presets
    assert "paper: " in presets
    assert "released: " in presets


@pytest.mark.parametrize(
    ("method", "claim", "forgets"),
    [
        ("cgu[epsilon=0.5]", "certified, epsilon 0.5, delta 0.0001", "nodes, edges, features"),
        ("graph-editor", "approximate, exact but for rounding", "nodes, edges"),
        ("sisa", "exact-given-partition, the partition depends on ids", "nodes, features, edges"),
        ("tally", "exact", "nodes, edges, features"),
    ],
)
def test_show_gives_the_claim_with_what_qualifies_it_and_what_is_forgotten(
    method: str, claim: str, forgets: str, command: Any
) -> None:
    lines = command("show", method).out.splitlines()
    assert f"Claim: {claim}" in lines
    (line,) = [line for line in lines if line.startswith("Forgets: ")]
    assert sorted(line.removeprefix("Forgets: ").split(", ")) == sorted(forgets.split(", "))
    assert line.startswith("Forgets: nodes")


def test_show_unknown_and_of_two_kinds(command: Any, install: Write) -> None:
    told = command("show", "stedy")
    assert told.code == 2
    assert "Did you mean steady" in told.err
    install("ub-bad", "import not_there")
    assert "not_there" in command("show", "something").err
    install(
        "ub-same",
        "from unlearnbench import Component\nfrom unlearnbench import hookimpl\n"
        "class Same(Component):\n    name = 'steady'\n"
        "@hookimpl\ndef register_metrics(register):\n    register(Same)\n",
    )
    told = command("show", "steady")
    assert told.code == 2
    assert "steady is a method and a metric." in told.err
    assert "Choose one: --kind method." in told.err
    assert command("show", "steady", "--kind", "metric").out.startswith("steady, metric, version 1, from ub-same")
    assert command("show", "steady", "--kind", "method").out.startswith("steady, method, version 1, from ub-toys")
    assert command("show", "steady", "--kind", "metrc").code == 2


def test_doctor_says_what_is_there_and_a_broken_dataset_is_a_finding(
    command: Any, install: Write, tmp_path: Path
) -> None:
    install(
        "ub-torn",
        "from unlearnbench import hookimpl\n"
        "@hookimpl\ndef register_datasets(register):\n    register('torn', 'ub_nowhere:Torn')\n",
    )
    told = command("doctor", "--data-root", str(tmp_path / "data"))
    assert told.code == 0
    for heading in ("machine", "package", "devices", "NVML", "memory", "METIS", "threads", "data root", "plugin"):
        assert f"\n{heading} " in f"\n{told.out}"
    assert "dataset     torn: cannot be used" in told.out
    assert "ub_nowhere" in told.out
    assert f"{tmp_path / 'data' / 'Planetoid' / 'Cora' / 'raw'}" in told.out
    assert not (tmp_path / "data").exists()


def test_dry_run_lists_cells_and_writes_nothing(command: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    told = command("run", "-m", "steady,twin", *SMALL, "--repetitions", "2", "--out", str(out), "--dry-run")
    assert told.code == 0
    lines = told.out.splitlines()
    assert len(lines) == 6
    assert [line.split(None, 2)[1:] for line in lines[:3]] == [
        ["run", f"toy gcn {method} repetition 0"] for method in ("retrain", "steady", "twin")
    ]
    assert not out.exists()
    assert command("run", "-m", "steady", *ONCE, "--out", str(out)).code == 0
    again = command("run", "-m", "steady,twin", *SMALL, "--repetitions", "2", "--out", str(out), "--dry-run")
    assert [line.split()[0] for line in again.out.splitlines()] == [line.split()[0] for line in lines]
    assert [line.split()[1] for line in again.out.splitlines()] == ["done", "done", "run", "run", "run", "run"]


def test_overwriting_computes_all_again_with_the_same_outcome(command: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ("run", "-m", "sisa", *ONCE, *SHARDS, "--out", str(out))
    command(*arguments)
    before, files = records_of(out), files_of(out)
    assert "0 were there already" in command(*arguments, "--overwrite", "always").err
    after = records_of(out)
    assert {name: record.metrics for name, record in after.items()} == {n: r.metrics for n, r in before.items()}
    assert {name: record.digests for name, record in after.items()} == {n: r.digests for n, r in before.items()}
    assert all(files_of(out)[path][:2] != files[path][:2] for path in files)


def test_deployed_parameters_are_kept_on_request(command: Any, tmp_path: Path) -> None:
    from unlearnbench import load_state

    arguments = ("--out", str(tmp_path / "out"), "--save-state", str(tmp_path / "state"), "--no-reference")
    assert command("run", "-m", "steady", *ONCE, *arguments).code == 0
    ((_, record),) = records_of(tmp_path / "out").items()
    state = load_state(tmp_path / "state" / f"{record.key}.pt")
    assert {name: value.tolist() for name, value in state.weights.items()} == {"members/000/weight": [1.0]}


def test_networks_trained_one_by_one_are_the_same_and_each_is_timed(command: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ("run", "-m", "sisa", *ONCE, *SHARDS, "--no-reference", "--out", str(out), "--train")
    found = {}
    for train in ("lockstep", "one-by-one"):
        told = command(*arguments, train)
        assert told.code == 0
        assert f", {train}\n" in told.err
        assert "1 cells: 1 ok, 0 failed, 0 refused, 0 diverged; 0 were there already." in told.err
    for path in out.glob("records/*/*/*/*.json"):
        record = read_record(path)
        found[record.cell["training"]["one_by_one"]] = record
    together, alone = found[False], found[True]
    assert alone.digests == together.digests
    assert alone.metrics == together.metrics
    times = {
        row["name"]: row["seconds"] for row in alone.phases if row["name"].startswith("train/") and row["seconds"] > 0
    }
    assert len(times) == 3, alone.phases
    assert not any(row["name"].startswith("train/") for row in together.phases)


def test_every_table_can_be_asked_for() -> None:
    (told,) = [option.help for option in report.command.params if option.name == "table"]
    assert all(name in told for name, _ in TABLES)
    catalogue = load_catalogue()
    for entry in catalogue.all("table"):
        assert callable(catalogue.imported(entry))
        assert find_table(catalogue, entry.name).name == entry.name


@pytest.mark.parametrize(
    "style", ["text", *(pytest.param(one, marks=pytest.mark.slow) for one in ("md", "latex", "csv"))]
)
def test_report_and_leaderboard_rebuild_what_records_say(command: Any, tmp_path: Path, style: str) -> None:
    out = str(tmp_path / "out")
    ran = command("run", "-m", "steady", *ONCE, "--out", out)
    for table in EVERY_GROUP:
        told = command("report", out, "--table", table, "--format", style)
        assert told.code == 0
        assert "steady" in told.out
        assert told.err == ""
    if style == "text":
        assert command("report", out).out.strip() == ran.out.strip()
    assert command("leaderboard", "build", out).code == 0
    assert command("leaderboard", "verify", out).code == 0
    written = sorted((tmp_path / "out" / "leaderboard").glob("*.csv"))
    assert written
    written[0].write_text(written[0].read_text() + "stray\n")
    assert command("leaderboard", "verify", out).code == 1


def test_report_refuses_what_it_cannot_show(command: Any, tmp_path: Path) -> None:
    assert command("run", "-m", "steady", *ONCE, "--out", str(tmp_path)).code == 0
    told = command("report", str(tmp_path), "--table", "summary", "--against", "paper")
    assert told.code == 2
    assert "utility, time, datasets" in told.err
    told = command("report", str(tmp_path), "--table", "utility", "--figure", str(tmp_path / "a.png"))
    assert (told.code, "poison" in told.err) == (2, True)
    told = command("report", str(tmp_path), "--table", "factorial")
    assert (told.code, "--experiment factorial" in told.err) == (3, True)
    told = command("report", str(tmp_path), "--table", "characteristics")
    assert (told.code, "steady" in told.out) == (0, True)


@pytest.mark.slow
def test_a_page_and_figures_are_written_where_they_are_asked_for(command: Any, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    out, page, figures = (str(tmp_path / name) for name in ("out", "page", "figures"))
    assert command("run", "-m", "steady", *ONCE, "--out", out).code == 0
    told = command("report", out, "--methods", "steady", "--html", page, "--figures", figures)
    assert told.code == 0
    first, *rest = told.out.splitlines()
    assert first == f"{page}/index.html"
    text = Path(first).read_text("utf-8")
    assert f"unlearnbench report {out} --methods steady --html DIR" in text
    assert "steady" in text
    assert rest
    assert sorted(rest) == sorted(str(path) for path in Path(figures).iterdir())
    told = command("report", out, "--html", page, "--table", "time", "--format", "md")
    assert (told.code, "--table, --format" in told.err) == (2, True)
    told = command("report", out, "--html", f"{first}")
    assert told.code == 2
    told = command("report", out, "--html", page, "--datasets", "nowhere")
    assert (told.code, "nowhere" in told.err) == (3, True)


def test_nothing_to_report_is_told(command: Any, tmp_path: Path) -> None:
    for arguments in (("report", str(tmp_path / "nowhere")), ("report",), ("leaderboard", "build", str(tmp_path))):
        told = command(*arguments)
        assert told.code == 3
        assert told.err.startswith("error: ")
        assert told.out == ""


def test_debug_shows_where_an_error_comes_from_and_keeps_the_code(command: Any) -> None:
    told = command("run", "-m", "retrian", "--debug")
    assert told.code == 2
    assert "Traceback" in told.err
    assert "Did you mean retrain" in told.err


def test_progress_on_a_terminal_goes_to_standard_error(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOY_FAILS", "1")
    # What is captured is no terminal: say that it is one.
    monkeypatch.setattr(type(sys.stderr), "isatty", lambda stream: True)
    told = command("run", "-m", "steady,failing", *ONCE, "--out", str(tmp_path / "out"))
    assert told.code == 1
    assert "fails on purpose" in told.err
    assert told.out.startswith("Results: toy")


def test_ls_alone_counts_every_kind_and_understands_plurals(command: Any) -> None:
    told = command("ls")
    assert told.code == 0
    counts = {line.split()[1]: int(line.split()[0]) for line in told.out.splitlines() if line[:3].strip().isdigit()}
    assert set(counts) == {"method" if kind == "unlearner" else kind for kind in HOOKS}
    assert counts == json.loads(command("ls", "--json").out)
    assert counts["table"] == len(json.loads(command("ls", "tables", "--json").out)) >= len(TABLES)
    assert command("ls", "methods").out == command("ls", "method").out == command("ls", "unlearners").out


def test_all_methods_are_those_that_fit_and_the_others_are_named(command: Any) -> None:
    told = command("run", "-m", "all", *ONCE, "--dry-run", "--forget-kind", "edge", "--json")
    assert told.code == 0, told.err
    methods = {cell["method"] for cell in json.loads(told.out)["cells"]}
    assert {"retrain", "sisa", "finetune"} <= methods
    assert "projector" not in methods
    assert "left out of --methods all: projector " in told.err


def test_report_lists_tables_and_figures(command: Any) -> None:
    told = command("report", "--list")
    assert told.code == 0
    assert all(any(line.split()[:1] == [name] for line in told.out.splitlines()) for name, _ in (*TABLES, *FIGURES))
    assert command("report", "--list", "--table", "time").code == 2


def test_nothing_is_written_into_results_unless_it_is_named(command: Any, tmp_path: Path) -> None:
    (tmp_path / "results" / "records").mkdir(parents=True)
    told = command("report")
    assert told.code == 3
    assert "hint: Those in results: unlearnbench report results" in told.err
    assert command("run", "-m", "steady", *ONCE).code == 0
    assert files_of(tmp_path / "results") == {}
    assert command("report").code == 0


@pytest.mark.parametrize(
    ("started", "how"), [("unlearnbench", "unlearnbench"), ("{here}/bin/unlearnbench", "bin/unlearnbench")]
)
def test_commands_are_printed_as_they_work(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, started: str, how: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [started.format(here=tmp_path)])
    if started == "unlearnbench":
        monkeypatch.setattr("shutil.which", lambda name: str(tmp_path / name))
    assert program() == how
    assert (
        as_typed("Type unlearnbench run -m sisa, of unlearnbench.", COMMANDS)
        == f"Type {how} run -m sisa, of unlearnbench."
    )
