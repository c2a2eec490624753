"""What commands tell programs, and what a terminal of any width is told."""

from __future__ import annotations

import io
import json
import re
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from command_line import ONCE, SMALL, Process, command, install, records_of
from rich.console import Console, Group

from unlearnbench.measure.clock import Meter
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.report.tables.render import render
from unlearnbench.report.tables.table import Table
from unlearnbench.running.config import make_config
from unlearnbench.running.plan import make_plan
from unlearnbench.running.progress import CellBar, cell_bar
from unlearnbench.running.runner import run_cell

__all__ = ["command", "install"]

WIDE = Table(
    "summary",
    "A caption.",
    pd.DataFrame(
        {"method": ["retrain", "graphrevoker"], "F1 shard %": ["86.49 ± 3.04", "78.58 ± 2.61"], "n": ["", "3"]}
    ),
    pd.DataFrame(
        {"method": ["retrain", "graphrevoker"], "f1": [0.8649, float("nan")], "n": [10, 3], "all": [True, False]}
    ),
    ("A note.",),
    frozenset({(1, "F1 shard %")}),
)


def drawn(bar: CellBar, console: Console) -> str:
    """Draw a bar as rich does while it is shown."""
    with console.capture() as captured:
        console.print(Group(*bar.get_renderables()))
    return captured.get()


def test_run_tells_what_came_of_every_cell(command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOY_FAILS", "1")
    out = tmp_path / "out"
    arguments = ("run", "-m", "steady,failing", *ONCE, "--out", str(out), "--json")
    plan = json.loads(command(*arguments, "--dry-run").out)
    assert [(cell["method"], cell["wanted"]) for cell in plan["cells"]] == [
        ("retrain", True),
        ("steady", True),
        ("failing", True),
    ]
    assert not out.exists()
    told = command(*arguments)
    said = json.loads(told.out)
    assert told.code == said["exit_code"] == 1
    assert {name: said[name] for name in ("there_already", "ok", "failed", "refused", "diverged")} == {
        "there_already": 0,
        "ok": 2,
        "failed": 1,
        "refused": 0,
        "diverged": 0,
    }
    assert [cell["key"] for cell in said["cells"]] == [cell["key"] for cell in plan["cells"]]
    assert [cell["status"] for cell in said["cells"]] == ["ok", "ok", "error"]
    assert all((out / cell["record"]).is_file() for cell in said["cells"])
    assert "on purpose" in said["cells"][2]["error"]["message"]
    again = json.loads(command(*arguments, "--overwrite", "never").out)
    assert (again["there_already"], again["failed"]) == (2, 1)
    assert again["cells"][2]["status"] == "failed before"
    assert again["cells"][2]["record"] is None


def test_report_and_leaderboard_tell_programs_what_they_tell_people(command: Any, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    assert command("run", "-m", "steady", *ONCE, "--out", out).code == 0
    (table,) = json.loads(command("report", out, "--json").out)
    ((_, record), *_) = records_of(tmp_path / "out").items()
    assert table["table"] == "summary"
    assert {row["method"] for row in table["rows"]} == {"retrain", "steady"}
    assert {row["dataset_sha256"] for row in table["rows"]} == {record.cell["dataset"]["sha256"]}
    assert any(f"unlearnbench report {out}" in note for note in table["notes"])
    told = command("report", out, "--json", "--format", "md")
    assert (told.code, "--json and --format" in told.err) == (2, True)
    assert (command("report", out, "--json", "--html", str(tmp_path / "page")).code) == 2
    assert command("leaderboard", "build", out).code == 0
    assert json.loads(command("leaderboard", "verify", out, "--json").out) == {"agrees": True, "problem": None}
    (first, *_) = sorted((tmp_path / "out" / "leaderboard").rglob("*.csv"))
    first.write_text(first.read_text() + "stray\n")
    told = command("leaderboard", "verify", out, "--json")
    said = json.loads(told.out)
    assert told.code == 1
    assert said["agrees"] is False
    assert first.name in said["problem"]


def test_show_and_doctor_tell_programs_what_they_tell_people(command: Any, tmp_path: Path) -> None:
    said = json.loads(command("show", "sharded[num_shards=3,partitioner=bekm[slack=0.25]]", "--json").out)
    values = {row["name"]: row for row in said["parameters"]}
    assert values["num_shards"]["value"] == 3
    assert values["partitioner"]["value"] == "bekm"
    assert {row["name"]: row["value"] for row in values["partitioner"]["parameters"]}["slack"] == 0.25
    assert said["claim"] == "exact-given-partition"
    assert json.loads(command("show", "cora", "--json").out)["license"] == "MIT (repository)"
    found = json.loads(command("doctor", "--data-root", str(tmp_path / "data"), "--json").out)
    assert found["data_root"] == {"path": str(tmp_path / "data"), "exists": False}
    assert {plugin["status"] for plugin in found["plugins"]} == {"ok"}
    assert found["packages"]["torch"]


def test_tables_for_programs_hold_raw_numbers_and_null() -> None:
    (table,) = json.loads(render([WIDE], "json"))
    assert table["rows"] == [
        {"method": "retrain", "f1": 0.8649, "n": 10, "all": True},
        {"method": "graphrevoker", "f1": None, "n": 3, "all": False},
    ]
    assert table["notes"] == ["A note."]


def test_a_table_wider_than_the_terminal_is_written_row_by_row() -> None:
    whole = render([WIDE])
    widest = max(map(len, whole.splitlines()))
    assert render([WIDE], width=widest) == whole
    assert max(map(len, render([WIDE], width=widest - 1).splitlines())) < widest
    assert render([WIDE], width=24) == (
        "A caption.\n\nretrain\n  F1 shard %  86.49\n              ± 3.04\n"
        "graphrevoker\n  F1 shard %  78.58\n              ± 2.61 =\n  n           3\n\nA note.\n"
    )
    assert render([WIDE], "md", width=20) == render([WIDE], "md")


@pytest.mark.parametrize("width", [40, 60, 100])
def test_progress_is_two_lines_at_any_width_and_three_with_scores(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    bar = cell_bar(console)
    bar.add_task("", total=120, completed=17)
    bar.cell, bar.phase = "lastfm-asia jknet sharded[partitioner=bekm[slack=0]] repetition 3", "unlearn/aggregate"
    lines = drawn(bar, console).rstrip("\n").splitlines()
    assert len(lines) == 2, lines
    assert all(len(line) <= width for line in lines)
    assert "17/120" in lines[0]
    assert "left" in lines[0]
    assert lines[1].startswith("lastfm-asia jknet")
    assert ("unlearn/aggregate" in lines[1]) == (width == 100)
    bar.scores = "F1 so far, %: retrain 86.5, sisa 81.8, graphrevoker 84.1, " * 3
    lines = drawn(bar, console).rstrip("\n").splitlines()
    assert len(lines) == 3
    assert lines[2].startswith("F1 so far, %: retrain 86.5")
    assert len(lines[2]) <= width


@pytest.mark.parametrize("refused", [True, False])
def test_no_color_is_kept_to(refused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    if refused:
        monkeypatch.setenv("NO_COLOR", "1")
    else:
        monkeypatch.delenv("NO_COLOR", raising=False)
    console = Console(file=io.StringIO(), width=80, force_terminal=True)
    bar = cell_bar(console)
    bar.add_task("", total=4, completed=2)
    colours = re.findall(r"\x1b\[(?:[\d;]*;)?(?:3[0-7]|38|9[0-7])[\d;]*m", drawn(bar, console))
    assert bool(colours) != refused


def test_phases_and_epochs_are_told_as_they_begin() -> None:
    told: list[tuple[str, int, int]] = []
    meter = Meter(torch.device("cpu"), watch=lambda *what: told.append(what))
    with meter.phase("unlearn"), meter.phase("retrain"):
        assert told == [("unlearn", 0, 0), ("unlearn/retrain", 0, 0)]
        meter.epoch(3, 100)
        assert told[-1] == ("unlearn/retrain", 3, 100)
    with meter.phase("evaluate"):
        assert told[-1] == ("evaluate", 0, 0)


@pytest.mark.parametrize(
    ("method", "phases"),
    [
        ("retrain", {"fit/train": {100}, "unlearn/retrain": {100}}),
        (
            "graphrevoker[num_shards=2]",
            {
                "fit/partition": {30},
                "fit/train": {100},
                "fit/aggregate": {20},
                "unlearn/retrain": {100},
                "unlearn/aggregate": {20},
            },
        ),
    ],
)
def test_every_epoch_of_training_is_told(method: str, phases: dict[str, set[int]], tmp_path: Path) -> None:
    told: dict[str, list[tuple[int, int]]] = {}

    def watch(phase: str, epoch: int, epochs: int) -> None:
        if epochs:
            told.setdefault(phase, []).append((epoch, epochs))

    settings = {
        "datasets": ["sbm[num_nodes=100,num_edges=400,num_classes=2,num_features=4]"],
        "methods": [method],
    }
    config = make_config({**settings, "repetitions": 1, "reference": False, "out": tmp_path})
    plan = make_plan(config, load_catalogue())
    (cell,) = plan.cells
    record, _, _ = run_cell(cell, plan.graphs[cell.dataset_label], replace(plan.context, watch=watch))
    assert record.status == "ok"
    assert told == {
        phase: [(epoch, total) for total in totals for epoch in range(1, total + 1)] for phase, totals in phases.items()
    }


@pytest.mark.slow
def test_without_a_terminal_nothing_moves_and_an_interruption_says_how_to_go_on(tmp_path: Path) -> None:
    started = tmp_path / "started"
    process = Process(
        tmp_path,
        *("run", "-m", "steady,stalling", *SMALL, "--repetitions", "2", "--out", str(tmp_path / "out"), "--json"),
        TOY_STALLS=str(started),
    )
    try:
        process.wait_for(started)
        process.send(signal.SIGINT)
        told = process.end()
    finally:
        process.stop()
    assert told.code == 130
    assert told.out == ""
    assert "The same command again goes on from there" in told.err
    assert "\x1b" not in told.err
    assert "\r" not in told.err
