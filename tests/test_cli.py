"""The command line: what it prints, how it ends, and what it leaves behind, also when it is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from command_line import ONCE, SHARDS, SMALL, Told, command, files_of, install, records_of
from plugin_samples import TOYS, Write, write_distribution

from unlearnbench.cli import COMMANDS, cli, report
from unlearnbench.hookspecs import KINDS
from unlearnbench.record import read_record
from unlearnbench.report.tables import OF_EXPERIMENTS, OTHERS, TABLES

__all__ = ["command", "install"]

WAIT_SECONDS = 100.0


def test_help_names_every_command_and_each_has_its_own() -> None:
    runner = CliRunner()
    said = runner.invoke(cli, ["--help"])
    assert said.exit_code == 0
    for name, line in COMMANDS.items():
        assert f"{name} " in said.output
        assert line in " ".join(said.output.split())
        assert runner.invoke(cli, [name, "--help"]).exit_code == 0
    assert runner.invoke(cli, ["--version"]).output.startswith("unlearnbench, version ")


@pytest.mark.parametrize(("name", "close"), [("rnu", "run"), ("plugin", "plugins"), ("repor", "report")])
def test_a_misspelt_command_names_the_nearest(command: Any, name: str, close: str) -> None:
    told = command(name)
    assert told.code == 2
    assert f"Did you mean {close}?" in told.err


@pytest.mark.parametrize("kind", [*KINDS, "method"])
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
        assert {"exactness", "controls", "distance", "partition-leakage"} <= {
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
    assert told.out.startswith("sharded, unlearner, version 1, from unlearnbench\n")
    lines = [line.split("    ")[0].strip() for line in told.out.splitlines() if " = " in line]
    assert "num_shards = 3" in told.out
    assert "partitioner = bekm" in told.out
    assert "slack = 0.25" in told.out
    assert len(lines) >= 4
    presets = command("show", "graphrevoker").out
    assert "paper: " in presets
    assert "released: " in presets


def test_show_unknown_and_of_two_kinds(command: Any, install: Write) -> None:
    told = command("show", "stedy")
    assert told.code == 2
    assert "Did you mean steady" in told.err
    install("ub-bad", "import not_there")
    assert "not_there" in command("show", "something").err
    install(
        "ub-same",
        "from unlearnbench.component import Component\nfrom unlearnbench.hookspecs import hookimpl\n"
        "class Same(Component):\n    name = 'steady'\n"
        "@hookimpl\ndef register_metrics(register):\n    register(Same)\n",
    )
    told = command("show", "steady")
    assert told.code == 2
    assert "--kind" in told.err
    assert command("show", "steady", "--kind", "metric").out.startswith("steady, metric, version 1, from ub-same")
    assert command("show", "steady", "--kind", "method").out.startswith("steady, unlearner, version 1, from ub-toys")
    assert command("show", "steady", "--kind", "metrc").code == 2


def test_doctor_says_what_is_there_and_a_broken_dataset_is_a_finding(
    command: Any, install: Write, tmp_path: Path
) -> None:
    install(
        "ub-torn",
        "from unlearnbench.hookspecs import hookimpl\n"
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


def test_what_is_there_is_not_computed_again_however_it_is_written(command: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = command("run", "-m", "sisa,steady", *ONCE, *SHARDS, "--out", str(out))
    assert first.code == 0
    assert set(records_of(out)) == {("retrain", 0), ("sisa", 0), ("steady", 0)}
    assert all(record.status == "ok" for record in records_of(out).values())
    assert "sisa[num_shards=3]" in first.out
    before = files_of(out)
    same = [
        ("-m", "sisa,steady", *ONCE, *SHARDS),
        ("-m", "steady", "-m", "sisa[num_shards=3,partitioner=random]", "-d", "toy", "--epochs", "2", "--seeds", "0"),
        (
            "-m",
            "steady,ub-toys:steady,retrain,sisa",
            *ONCE,
            *SHARDS,
            "--forget-ratio",
            "0.005",
            "--set",
            "training.lr=0.01",
        ),
        (
            "-m",
            "sisa[aggregator=mean],steady",
            *ONCE,
            *SHARDS,
            "--models",
            "gcn[]",
            "--device",
            "cpu",
            "--overwrite",
            "never",
        ),
    ]
    for arguments in same:
        told = command("run", *arguments, "--out", str(out))
        assert told.code == 0
        assert "3 cells: 3 ok, 0 failed, 0 refused, 0 diverged; 3 were there already." in told.err
        assert files_of(out) == before
    told = command("run", "-m", "sisa,steady", *ONCE, *SHARDS, "--out", str(out), "--forget-count", "2")
    assert "3 cells: 3 ok, 0 failed, 0 refused, 0 diverged; 0 were there already." in told.err
    assert {path: files_of(out)[path] for path in before} == before


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
    import torch

    arguments = ("--out", str(tmp_path / "out"), "--save-state", str(tmp_path / "state"), "--no-reference")
    assert command("run", "-m", "steady", *ONCE, *arguments).code == 0
    ((_, record),) = records_of(tmp_path / "out").items()
    state = torch.load(tmp_path / "state" / f"{record.key}.pt", weights_only=True)
    assert {name: value.tolist() for name, value in state.items()} == {"members/000/weight": [1.0]}


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
    reasons = {name: record.provenance["readings"]["reasons"] for name, record in found.items()}
    assert "--train one-by-one" in reasons[False]["seconds_per_shard"]
    assert "seconds_per_shard" not in reasons[True]
    times = {
        row["name"]: row["seconds"] for row in alone.phases if row["name"].startswith("train/") and row["seconds"] > 0
    }
    assert len(times) == 3, alone.phases
    assert not any(row["name"].startswith("train/") for row in together.phases)


def test_every_table_can_be_asked_for() -> None:
    (choice,) = [option.type for option in report.command.params if option.name == "table"]
    assert sorted(choice.choices) == sorted([*TABLES, *OF_EXPERIMENTS, *OTHERS, "cost", "audits"])


@pytest.mark.parametrize("style", ["text", "md", "latex", "csv"])
def test_report_and_leaderboard_rebuild_what_records_say(command: Any, tmp_path: Path, style: str) -> None:
    out = str(tmp_path / "out")
    ran = command("run", "-m", "steady", *ONCE, "--out", out)
    for table in TABLES:
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


def test_a_damaged_record_is_told_once_and_computed_anew(command: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command("run", "-m", "steady", *ONCE, "--out", str(out))
    (path,) = out.glob("records/*/*/steady/*.json")
    whole = path.read_bytes()
    path.write_bytes(whole[:100])
    told = command("report", str(out))
    assert told.err.count(path.name) == 1
    told = command("run", "-m", "steady", *ONCE, "--out", str(out))
    assert told.code == 0
    assert path.name in told.err
    assert "1 were there already" in told.err
    assert read_record(path).status == "ok"


def test_debug_shows_where_an_error_comes_from_and_keeps_the_code(command: Any) -> None:
    told = command("run", "-m", "retrian", "--debug")
    assert told.code == 2
    assert "Traceback" in told.err
    assert "Did you mean retrain" in told.err


@pytest.mark.parametrize("name", ["bad", "ub-bad:bad"])
def test_a_method_of_a_broken_plugin_is_refused_with_the_reason(
    command: Any, install: Write, tmp_path: Path, name: str
) -> None:
    install("ub-bad", "import not_there")
    out = tmp_path / "out"
    told = command("run", "-m", f"steady,{name}", *ONCE, "--out", str(out))
    assert told.code == 2
    assert "No module named 'not_there'" in told.err.splitlines()[-1]
    assert not out.exists()
    told = command("run", "-m", "steady", *ONCE, "--out", str(out))
    assert told.code == 0
    assert "warning: plugin bad of ub-bad was not loaded" in told.err
    disabled = ("--disable-plugin", "bad", "--disable-plugin", "dab")
    told = command("run", "-m", "steady", *ONCE, "--out", str(out), *disabled)
    assert told.code == 0
    assert "not loaded" not in told.err
    assert "--disable-plugin dab: there is no such plugin" in told.err


def test_two_plugins_with_one_method_are_told_apart(command: Any, install: Write, tmp_path: Path) -> None:
    for letter in "ab":
        install(
            f"ub-{letter}",
            "from ub_toys import Steady\nfrom unlearnbench.hookspecs import hookimpl\n"
            "class Wipe(Steady):\n    name = 'wipe'\n"
            "@hookimpl\ndef register_unlearners(register):\n    register(Wipe)\n",
        )
    out = tmp_path / "out"
    told = command("run", "-m", "wipe", *ONCE, "--out", str(out))
    assert told.code == 2
    assert "ub-a:wipe or ub-b:wipe" in told.err
    told = command("run", "-m", "ub-a:wipe,ub-b:wipe", *ONCE, "--no-reference", "--out", str(out))
    assert told.code == 0
    assert "2 cells: 2 ok, 0 failed" in told.err
    assert len(list(out.glob("records/*/toy/wipe/*.json"))) == 2


def test_strict_mode_stops_at_a_broken_plugin(command: Any, install: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    install("ub-bad", "import not_there")
    monkeypatch.setenv("UNLEARNBENCH_STRICT_PLUGINS", "1")
    told = command("plugins")
    assert told.code == 2
    assert "Plugin bad of ub-bad: ModuleNotFoundError" in told.err


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


class Process:
    """The command line in a process of its own, in which the toy methods are installed."""

    def __init__(self, folder: Path, *arguments: str, **environment: str) -> None:
        site = folder / "site"
        if not site.exists():
            write_distribution(site, "ub-toys", TOYS)
        path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH", "")]))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "unlearnbench", *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": path, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A parent that was started in the background may have passed on that interruptions are ignored.
            preexec_fn=None if os.name == "nt" else partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
        )

    def wait_for(self, path: Path) -> None:
        until = time.monotonic() + WAIT_SECONDS
        while not path.exists():
            assert self._process.poll() is None, self._process.communicate()
            assert time.monotonic() < until, f"{path.name} did not appear"
            time.sleep(0.02)

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def end(self) -> Told:
        out, err = self._process.communicate(timeout=WAIT_SECONDS)
        return Told(self._process.returncode, out, err)

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()


TWELVE = ("run", "-m", "steady,stalling", *SMALL, "--repetitions", "4", "--out", "out")
FINISHED = {("retrain", 0), ("steady", 0), ("stalling", 0), ("retrain", 1), ("steady", 1)}
ALL = {(method, repetition) for method in ("retrain", "steady", "stalling") for repetition in range(4)}


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_a_stopped_run_loses_its_running_cell_alone_and_goes_on(
    number: signal.Signals, code: int, command: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    process = Process(folder, *TWELVE, TOY_STALLS=str(folder / "stalled"))
    try:
        process.wait_for(folder / "stalled")
        process.send(number)
        told = process.end()
    finally:
        process.stop()
    assert told.code == code
    if number != signal.SIGKILL:
        assert told.err.splitlines()[-1].startswith("interrupted: finished cells are saved")
        assert "Traceback" not in told.err
    out = folder / "out"
    assert set(records_of(out)) == FINISHED
    assert all(record.status == "ok" for record in records_of(out).values())
    before = files_of(out)
    assert len(before) == 2 * len(FINISHED)

    told = command(*TWELVE[:-1], str(out))
    assert told.code == 0
    assert "12 cells: 12 ok, 0 failed, 0 refused, 0 diverged; 5 were there already." in told.err
    assert set(records_of(out)) == ALL
    after = files_of(out)
    assert {path: after[path] for path in before} == before
    assert len(after) == 2 * len(ALL)


def test_two_processes_on_one_store_do_not_harm_each_other(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, meeting = tmp_path / "work", tmp_path / "meeting"
    folder.mkdir()
    meeting.mkdir()
    monkeypatch.setenv("TOY_MEETS", str(meeting))
    arguments = ("run", "-m", "meeting,sisa,steady", *SMALL, *SHARDS, "--repetitions", "3", "--no-reference", "--out")
    process = Process(folder, *arguments, "out")
    try:
        here = command(*arguments, str(folder / "out"))
        there = process.end()
    finally:
        process.stop()
    assert len(list(meeting.iterdir())) == 2
    for told in (here, there):
        assert told.code == 0
        assert "9 cells: 9 ok, 0 failed, 0 refused, 0 diverged; 0 were there already." in told.err
    records = records_of(folder / "out")
    assert len(records) == 9
    assert all(record.status == "ok" for record in records.values())
    assert len(files_of(folder / "out")) == 18
    assert not [path for path in (folder / "out").rglob("*") if path.name.startswith(".")]
    before = files_of(folder / "out")
    assert "9 were there already" in command(*arguments, str(folder / "out")).err
    assert files_of(folder / "out") == before
    # Method, repetitions and F1; times differ.
    rows = [next(line for line in told.out.splitlines() if line.startswith("sisa")) for told in (here, there)]
    assert rows[0].split()[:4] == rows[1].split()[:4]
