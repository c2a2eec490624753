"""The leaderboard: CSV files made of records alone, the same bytes from the same records."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from unlearnbench.errors import NothingMatchedError, UnlearnbenchError, WriteError
from unlearnbench.records.digits import DIGEST
from unlearnbench.records.files import inside, make_folder, remove, safe_name, write_whole
from unlearnbench.records.record import Record
from unlearnbench.report.frame.aggregate import METRICS, STATUSES, Aggregate, aggregate
from unlearnbench.report.frame.aliases import without_aliases
from unlearnbench.report.frame.frame import VIEWS, frame_of, load_evidence, results_root
from unlearnbench.report.frame.plain_rows import Row, plain_rows
from unlearnbench.report.frame.record_groups import group_records
from unlearnbench.report.publish.marks import Marks, RecordName, read_marks, recomputed_columns
from unlearnbench.report.tables.audits import audit_frame_of, raw
from unlearnbench.report.tables.render import csv_text
from unlearnbench.statistics.averages import mean

OVERALL = "all.csv"
AUDITS = "audits.csv"
_REMEDY = "Make it anew: unlearnbench leaderboard build."

Line = tuple[Mapping[str, Any], Row]
"""A method's averages in a group of records, after what the group has in common."""


def build(results: Path, out: Path) -> list[Path]:
    """Write the leaderboard of a results folder.

    `<protocol>/<dataset>.csv` has one row per model, method and view; `all.csv` one row per
    method and view with its mean over all datasets and models, and its rank; `audits.csv` one
    row per score of an audit, naming the record that has its settings, notes and controls. Where records were computed
    again (`marks`), rows count them and name the machines. Files of an earlier leaderboard that would
    not be written now are removed. The paths come back in the order of names.

    Raises:
        NothingMatchedError: There is no record.
        UnlearnbenchError: A record cannot be read: evidence is whole or it is none.
    """
    files = contents(results)
    for name, content in files.items():
        inside((out / name).parent, out)
        make_folder((out / name).parent)
        write_whole(out / name, content)
    heads = {content.split(b"\n", 1)[0] for content in files.values()}
    for name in sorted(set(_standing(out)) - set(files)):
        if _content(out / name).split(b"\n", 1)[0] in heads and not remove(out / name):
            raise WriteError(f"{out / name} is of an earlier leaderboard and cannot be removed.", "Remove it yourself.")
    return [out / name for name in sorted(files)]


def verify(results: Path, out: Path) -> None:
    """Check that a leaderboard is what its records give, with or without what was computed again.

    Raises:
        NothingMatchedError: There is no record.
        UnlearnbenchError: Names the first file that is missing, too many or different, and the line.
    """
    standing = _standing(out)
    try:
        _compare(contents(results, with_marks=False), standing, out)
    except UnlearnbenchError:
        _compare(contents(results), standing, out)


def _compare(files: Mapping[str, bytes], standing: Sequence[str], out: Path) -> None:
    for name in sorted({*files, *standing}):
        if name not in standing:
            raise UnlearnbenchError(f"{out / name} is missing.", _REMEDY)
        if name not in files:
            raise UnlearnbenchError(f"{out / name} is not made of any record.", "Delete it, or add its records.")
        found = _content(out / name)
        if found != files[name]:
            raise UnlearnbenchError(f"{out / name}, line {_first_difference(found, files[name])}.", _REMEDY)


def contents(results: Path, with_marks: bool = True) -> dict[str, bytes]:
    """Make the files of the leaderboard in memory: path below its folder to content.

    A record that lies elsewhere than it says is left out, with a warning.
    """
    root = results_root(results)
    whole = load_evidence(results)
    if not whole:
        raise NothingMatchedError(f"{results}: no records.", "Name the folder they are in.")
    texts = {}
    if any(record.is_audit and not record.is_failure for record in whole):
        texts[AUDITS] = csv_text(
            _without_settings(raw(audit_frame_of(without_aliases(one for one in whole if not one.is_failure))))
        )
    records = [record for record in whole if not record.is_audit]
    if records:
        found = [aggregate(group) for group in group_records(frame_of(without_aliases(records)))]
        marks = read_marks(root) if with_marks else {}
        by_name = {(record.machine, record.key): record for record in records} if marks else {}
        by_file: defaultdict[str, list[pd.DataFrame]] = defaultdict(list)
        for one in found:
            protocol, dataset = (safe_name(one.group.facets[name]) for name in ("protocol", "dataset"))
            by_file[f"{protocol}/{dataset}.csv"].append(_rows(one, by_name, marks))
        texts |= {name: csv_text(pd.concat(parts, ignore_index=True)) for name, parts in by_file.items()}
        texts[OVERALL] = csv_text(_overall(found))
    return {name: texts[name].encode("utf-8") for name in sorted(texts)}


def _without_settings(scores: pd.DataFrame) -> pd.DataFrame:
    """Leave out settings, notes and controls but `noop`, most of each line: `machine` and `key` name their record.

    As of other digests, the first digits of a key tell it from all others.
    """
    left_out = ("_config", "_sha256", "notes", "controls")
    shown = scores.drop(columns=[name for name in scores.columns if name.endswith(left_out)])
    return shown.assign(key=shown["key"].str[:DIGEST])


def _standing(out: Path) -> list[str]:
    files = (path for path in out.rglob("*.csv") if not path.name.startswith(".") and path.is_file())
    return sorted(path.relative_to(out).as_posix() for path in files)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UnlearnbenchError(f"{path} cannot be read: {error.strerror}.", "Check its permissions.") from None


def _first_difference(found: bytes, expected: bytes) -> str:
    has, wants = found.decode("utf-8", "replace").split("\n"), expected.decode("utf-8").split("\n")
    pairs = enumerate(itertools.zip_longest(has, wants), start=1)
    number, lines = next((number, lines) for number, lines in pairs if lines[0] != lines[1])
    old, new = ("the end of the file" if line is None else repr(line) for line in lines)
    return f"{number}: has {old}, its records give {new}"


def _facets(one: Aggregate) -> dict[str, str]:
    facets = one.group.facets
    return {
        "protocol": facets["protocol"],
        "protocol_version": str(json.loads(facets["protocol_config"]).get("version", "")),
        "forget": facets["forget"],
        "training": facets["training_config"],
        "device": facets["device"],
    }


def _rows(one: Aggregate, records: Mapping[RecordName, Record], marks: Marks) -> pd.DataFrame:
    facets = one.group.facets
    ok = one.chosen[one.chosen["status"] == "ok"]
    torch = {str(name): " ".join(sorted(set(part["torch"]))) for name, part in ok.groupby("row")}
    chosen = one.chosen.drop_duplicates(["machine", "key"])
    names = {str(name): list(zip(part["machine"], part["key"], strict=True)) for name, part in chosen.groupby("row")}
    spread = ("mean", "sd")
    times = [f"{name}_{stat}" for name in ("unlearn_seconds", "partition_seconds", "train_seconds") for stat in spread]
    times += ["times_retrain", "times_retrain_n", "time_n", "quiet_n", "shards_hit", "node_epochs", "steps"]
    times += [name for name in one.data.columns if name.endswith(("peak_gpu_mib", "peak_rss_mib"))]
    rows = []
    for row in plain_rows(one.data):
        for view in VIEWS:
            line: dict[str, Any] = _facets(one) | {name: facets[name] for name in ("dataset_sha256", "model")}
            line |= {"method": row["method"], "view": view}
            line |= {name: row[name] for name in ("n", "expected", *STATUSES)}
            line |= {f"{metric}_{stat}": row[f"{metric}_{view}_{stat}"] for metric in METRICS for stat in spread}
            line |= {name: row[name] for name in times}
            line |= {"time_machine": one.machine, "torch": torch.get(row["method"], "")}
            if marks:
                line |= recomputed_columns((records[name] for name in names[row["method"]]), marks)
            line |= {name: facets[name] for name in ("dataset_config", "model_config")}
            rows.append({**line, "method_config": row["method_config"]})
    return pd.DataFrame(rows)


def _overall(found: Sequence[Aggregate]) -> pd.DataFrame:
    """Return one row per protocol, training, device, method and view, ranked where coverage is complete.

    `overall` is the mean F1 over every (dataset, model) pair that any method has; it is blank
    unless the method has every repetition of every pair.
    """
    blocks: defaultdict[str, list[Aggregate]] = defaultdict(list)
    for one in found:
        facets = one.group.facets
        blocks[json.dumps([facets["protocol_config"], facets["other_config"], *_facets(one).values()])].append(one)
    rows: list[dict[str, Any]] = []
    for key in sorted(blocks):
        methods = _methods(blocks[key])
        for view in VIEWS:
            block = [_overall_row(blocks[key], lines, view) for lines in methods]
            scores = [row["overall"] for row in block if row["overall"] is not None]
            for row in block:
                score = row["overall"]
                row["rank"] = None if score is None else 1 + sum(other > score for other in scores)
            rows += block
    return pd.DataFrame(rows)


def _methods(block: Sequence[Aggregate]) -> list[list[Line]]:
    """Return each method's lines in the groups of a block, by the method's name."""
    found: defaultdict[str, list[Line]] = defaultdict(list)
    for one in block:
        for row in plain_rows(one.data):
            found[row["method_config"]].append((one.group.facets, row))
    names = {config: str(lines[-1][1]["method"]) for config, lines in found.items()}
    return [found[config] for config in sorted(found, key=lambda config: (names[config], config))]


def _overall_row(block: Sequence[Aggregate], mine: Sequence[Line], view: str) -> dict[str, Any]:
    column = f"f1_micro_{view}"
    scores = [float(row[f"{column}_mean"]) for _, row in mine if row[f"{column}_n"] == row["expected"]]
    return {
        **_facets(block[0]),
        "method": str(mine[-1][1]["method"]),
        "view": view,
        "coverage": f"{len(scores)}/{len(block)}",
        "overall": mean(scores) if len(scores) == len(block) else None,
        "rank": None,
        "covers": " ".join(sorted(f"{facets['dataset']}/{facets['model']}" for facets, _ in mine)),
        "method_config": mine[-1][1]["method_config"],
    }
