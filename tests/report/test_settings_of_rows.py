"""D6: a record holds all that made its numbers, and tables come from records alone."""

from __future__ import annotations

import re
import shutil
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from command_line import ONCE, SHARDS, command, install, records_of
from record_samples import make_record

from unlearnbench.protocol import Request
from unlearnbench.records.record import Record
from unlearnbench.records.store import Store
from unlearnbench.report import frame_of
from unlearnbench.report.tables.core import EVERY_GROUP
from unlearnbench.report.tables.index import build_tables
from unlearnbench.report.tables.render import FORMATS
from unlearnbench.testing.graphs import toy_graph

__all__ = ["command", "install"]


def test_a_record_holds_everything_that_made_it(command: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command("run", "-m", "steady,sisa", *ONCE, *SHARDS, "--out", str(out), "--set", "seed=7")
    records = records_of(out)
    steady, sisa = records["steady", 0], records["sisa", 0]
    assert sisa.cell["method"]["params"]["num_shards"] == 3
    # Parameters that nobody gave, parts of parts too.
    assert sisa.cell["method"]["params"]["partitioner"] == {"name": "random", "version": 1, "params": {}}
    assert sisa.cell["training"] == {"epochs": 2, "lr": 0.01, "weight_decay": 0.0005, "one_by_one": False}
    assert sisa.cell["model"]["params"]["hidden"] == 64
    assert sisa.cell["protocol"]["forget"] == {"kind": "node", "ratio": 0.005}
    assert sisa.cell["protocol"]["split"] == [0.7, 0.2, 0.1]
    assert (sisa.cell["seed"], sisa.cell["repetition"], sisa.cell["device"]) == (7, 0, "cpu")
    assert sisa.cell["dataset"]["sha256"] == toy_graph(100, first_id=5000).checksum()
    assert steady.cell["method"]["distribution"] == "ub-toys"
    for record in (steady, sisa):
        (request,) = record.requests
        forgotten = Store(out, record.machine).arrays(record)["forgotten"]
        assert request["count"] == len(forgotten) == 1
        assert request["ids_sha256"] == Request(torch.from_numpy(np.sort(forgotten))).sha256()
        source = record.provenance
        assert source["packages"]["torch"] == metadata.version("torch")
        assert source["packages"]["torch-geometric"] == metadata.version("torch-geometric")
        assert {"unlearnbench", "numpy", "scipy", "scikit-learn", "pandas"} <= source["packages"].keys()
        assert source["plugins"]["ub-toys"] == "1.0"
        assert {"git", "dirty", "python", "threads", "backend", "exclusive", "load"} <= source.keys()
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", source["started"])
        assert (out / "machines" / f"{record.machine}.json").is_file()
        assert record.status == "ok"


def everything(command: Any, out: Path) -> dict[str, str]:
    """Make every table in every format, and the leaderboard."""
    written = {style: ("--json",) if style == "json" else ("--format", style) for style in FORMATS}
    told = {f"{name} {style}": command("report", str(out), "--table", name, *options).out
            for name in EVERY_GROUP for style, options in written.items()}  # fmt: skip
    assert command("leaderboard", "build", str(out)).code == 0
    files = {path.relative_to(out).as_posix(): path.read_text() for path in out.glob("leaderboard/**/*.csv")}
    assert len(files) == 2
    assert all(told.values())
    return {**told, **files}


@pytest.mark.slow
def test_every_table_comes_back_byte_for_byte_from_the_raw_records(command: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command("run", "-m", "steady,sisa", *ONCE, *SHARDS, "--out", str(out))
    before = everything(command, out)
    shutil.copytree(out / "records", tmp_path / "kept", copy_function=shutil.copy)
    shutil.rmtree(out)
    shutil.move(tmp_path / "kept", out / "records")
    assert everything(command, out) == before


def digest_below(*records: Record) -> str:
    (table,) = build_tables(frame_of(records), "utility")
    (digest,) = re.findall(r"^Settings of all rows: sha256 ([0-9a-f]{12})[.]$", "\n".join(table.notes), re.M)
    return str(digest)


def test_below_every_table_stands_a_digest_of_its_settings() -> None:
    base = digest_below(make_record(), make_record("sisa"))
    # Neither the order, nor which repetitions there are, nor where or when they ran is a setting.
    assert digest_below(make_record("sisa", 3, machine="m-0002", torch="2.12.0"), make_record()) == base
    others = [
        digest_below(make_record(), make_record("sisa", params={"num_shards": 5})),
        digest_below(make_record(), make_record("sisa", version=2)),
        digest_below(make_record(), make_record("gif")),
        digest_below(make_record()),
        *(
            digest_below(make_record(**change), make_record("sisa", **change))
            for change in (
                {"dataset": "citeseer"}, {"sha256": "bb" * 32}, {"model": "gat"}, {"device": "cuda"},
                {"protocol_version": 2}, {"protocol": {"forget": {"kind": "node", "ratio": 0.1}}},
            )
        ),
    ]  # fmt: skip
    assert len({base, *others}) == len(others) + 1


def table(*records: Record) -> Any:
    (found,) = build_tables(frame_of(records), "summary")
    return found


@pytest.mark.parametrize("name", EVERY_GROUP)
def test_every_table_marks_a_row_of_another_torch(name: str) -> None:
    records = [make_record(), make_record("sisa", torch="2.12.0"), make_record("gif")]
    (found,) = build_tables(frame_of(records), name)
    assert {row for row in found.shown.iloc[:, 0] if row.endswith(" †")} == {"sisa †"}
