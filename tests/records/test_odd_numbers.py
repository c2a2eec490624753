"""D4: numbers that JSON has no word for become null with a note; the record is strict JSON, and the run goes on."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import ONCE, command, install, records_of
from plugin_samples import Write
from pydantic import ValidationError
from record_samples import make_record

from unlearnbench.records.record import Record
from unlearnbench.records.store import Store

__all__ = ["command", "install"]

# One metric a value; and metrics that fail, or spoil what they are given.
ODD = """
from unlearnbench import Metric, hookimpl


def metric(title, give):
    def score(self, labels, log_probabilities):
        return give(labels, log_probabilities)

    return type(title, (Metric,), {"name": title, "summary": "Odd.", "score": score})


def leave(labels, log_probabilities):
    raise SystemExit(3)


def spoil(labels, log_probabilities):
    log_probabilities.fill_(7)
    labels.zero_()
    return 0.5


VALUES = {"a_nan": float("nan"), "a_inf": float("inf"), "a_minus": float("-inf"), "a_tiny": 1e-320,
          "a_huge": 10**400, "a_text": "fast", "a_none": None, "a_complex": 1j, "a_list": [1.0]}
METRICS = [metric(name, lambda labels, said, value=value: value) for name, value in VALUES.items()]
METRICS += [metric("a_leaving", leave), metric("a_spoiling", spoil)]


@hookimpl
def register_metrics(register):
    for cls in METRICS:
        register(cls)
"""
OURS = ["f1_macro", "f1_micro", "val_f1_macro", "val_f1_micro"]


def strict(text: str) -> dict[str, Any]:
    def refuse(token: str) -> None:
        raise AssertionError(token)

    plain: dict[str, Any] = json.loads(text, parse_constant=refuse)
    return plain


def test_odd_values_of_metrics_cost_neither_the_record_nor_the_other_scores(
    command: Any, install: Write, tmp_path: Path
) -> None:
    arguments = ("run", "-m", "steady", *ONCE, "--out")
    assert command(*arguments, str(tmp_path / "plain")).code == 0
    plain = records_of(tmp_path / "plain")
    install("ub-odd", ODD)
    told = command(*arguments, str(tmp_path / "odd"))
    assert told.code == 0
    assert "2 cells: 2 ok, 0 failed" in told.err
    odd = records_of(tmp_path / "odd")
    for name, record in odd.items():
        # Status ok: the method did nothing wrong; what a metric could not say stands in the notes.
        assert record.status == "ok"
        assert {metric: record.metrics[metric] for metric in OURS} == plain[name].metrics
        after = {metric: views["shard"]["after"] for metric, views in record.metrics.items() if metric[:2] == "a_"}
        assert after == {"a_nan": None, "a_inf": None, "a_minus": None, "a_tiny": 1e-320, "a_spoiling": 0.5}
        notes = " ".join(record.notes)
        for metric in ("a_huge", "a_text", "a_none", "a_complex", "a_list", "a_leaving"):
            assert f"The metric {metric} failed and is left out" in notes
        assert "metrics.a_inf.shard.after was inf; stored as null." in notes
    for path in (tmp_path / "odd").glob("records/*/*/*/*.json"):
        strict(path.read_text())


@pytest.mark.slow
def test_a_null_is_an_empty_cell_of_a_csv_and_never_a_zero(command: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    store = Store(out, "m-0001")
    store.save(make_record("retrain", shard=float("nan"), full=0.5, seconds=float("inf")))
    store.save(make_record("sisa", shard=0.25, full=float("-inf"), seconds=1e-320))
    told = command("report", str(out), "--table", "utility", "--format", "csv")
    assert not {"nan", "inf", "-inf"} & {cell.lower() for row in csv.reader(io.StringIO(told.out)) for cell in row}
    rows = {row["method"]: row for row in csv.DictReader(io.StringIO(told.out))}
    found = {name: (row["f1_micro_shard_mean"], row["f1_micro_full_mean"]) for name, row in rows.items()}
    assert found == {"retrain": ("", "0.5"), "sisa": ("0.25", "")}
    assert rows["retrain"]["unlearn_seconds_mean"] == ""
    assert float(rows["sisa"]["unlearn_seconds_mean"]) == pytest.approx(1e-320)
    assert rows["sisa"]["times_retrain"] == ""
    for table in ("summary", "utility", "time", "memory", "comparison", "equivalence"):
        for style in ("text", "md", "latex"):
            told = command("report", str(out), "--table", table, "--format", style)
            assert told.code == 0
            assert not {"nan", "inf", "-inf", "none"} & {*told.out.lower().replace("|", " ").split()}


def test_numbers_that_are_not_finite_become_null_with_a_note(store: Store) -> None:
    values = {
        "nan": float("nan"),
        "inf": float("inf"),
        "minus": float("-inf"),
        "tiny": 1e-320,
        "numpy": np.float32(0.5),
    }
    record = make_record(metrics={name: {"shard": {"after": value}} for name, value in values.items()}, seconds=np.inf)
    path = store.save(record)

    def refuse(token: str) -> None:
        raise AssertionError(token)

    plain = json.loads(path.read_text(), parse_constant=refuse)
    found = {name: plain["metrics"][name]["shard"]["after"] for name in values}
    assert found == {"nan": None, "inf": None, "minus": None, "tiny": 1e-320, "numpy": 0.5}
    assert plain.get("unlearn_seconds") is None
    assert "metrics.nan.shard.after was nan; stored as null." in plain["notes"]
    assert len(plain["notes"]) == 5  # nan, inf, -inf, the charged seconds, the seconds of the phase
    assert plain["status"] == "ok"


def test_a_cell_with_a_number_that_is_not_finite_is_refused() -> None:
    plain = make_record().model_dump(by_alias=True)
    plain["cell"]["training"]["lr"] = float("nan")
    with pytest.raises(ValidationError, match=r"cell\.training\.lr"):
        Record.model_validate(plain)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path, "m-0001")


def test_a_record_keeps_the_digits_that_tell() -> None:
    record = make_record("sisa")
    f1 = {"f1_micro": {"shard": {"after": 1 / 3}}}
    changed = {"phases": [{"name": "fit", "seconds": 2 / 3, "peak_rss_mib": 1 / 3}], "unlearn_seconds": 0.1 + 0.2}
    kept = Record.model_validate({**record.model_dump(by_alias=True), **changed, "metrics": f1})
    assert kept.phases == [{"name": "fit", "seconds": 0.666667, "peak_rss_mib": 0.333}]
    assert kept.unlearn_seconds == 0.3
    assert kept.metrics["f1_micro"]["shard"]["after"] == 0.3333333333
