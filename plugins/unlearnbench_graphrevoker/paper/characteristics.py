"""The paper's table of characteristics, measured: what is removed, what shards keep, what the aggregator adds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pandas as pd

from unlearnbench.report import (
    UNIT,
    VIEWS,
    Aggregate,
    Paired,
    Table,
    TableSource,
    canonical_json,
    corrected_paired_t,
    formatting,
    known,
    latest_audits,
    mean,
    origin_notes,
    overlap,
    paired_differences,
    reason_notes,
    sample_sd,
    scores,
    shown_count,
    shown_names,
    shown_statuses,
    with_facets,
)
from unlearnbench_graphrevoker.paper.designs import METHOD, lacks
from unlearnbench_graphrevoker.paper.numbers import PAPER, nothing_printed, published

AUDIT = "exactness"
PLAIN = "mean"
ASPECTS = {
    "removal": "removal",
    "structure": "edges kept %",
    "semantics": "label entropy %",
    "ensemble": "gain, shard pt",
}
"""Column of the paper's table to the column of ours that measures it."""
_SAME = ("dataset", "dataset_sha256", "model_config", "device", "method_config")


def measured(source: TableSource) -> Iterator[Table]:
    """Build a table of each group."""
    for averages in source.groups:
        yield from characteristics_tables(source.name, averages, source.audits)


def against(source: TableSource) -> Iterator[Table]:
    """Build a table of each group that the paper's marks stand beside."""
    tables = [
        table
        for averages in source.groups
        for table in characteristics_tables(source.name, averages, source.audits, True)
    ]
    if not tables:
        raise nothing_printed(source.name, "method")
    yield from tables


def characteristics_tables(
    name: str, averages: Aggregate, audits: pd.DataFrame | None = None, against: bool = False
) -> list[Table]:
    """Build the table of a group.

    Args:
        name: `characteristics`.
        averages: The group.
        audits: What `load_audits` gave; None where there is no record of an audit.
        against: Whether the paper's marks stand beside; then rows that it does not have are left
            out, and there is no table if it has none of them.
    """
    ratio, formula = overlap(averages)
    printed = {str(row["method"]): row for _, row in published(name).iterrows()} if against else None
    names, status = shown_names(averages), shown_statuses(averages.data)
    method_names = dict(zip(averages.group.frame["row"], averages.group.frame["method_name"], strict=True))
    plain = plain_rows(averages)
    lines, raw, reasons, lacking = [], [], [], []
    for at, (_, row) in enumerate(averages.data.iterrows()):
        method = row["method"]
        whole = method_names[method] != METHOD or not lacks(row["method_config"])
        if printed is not None and (method_names[method] not in printed or not whole):
            continue
        verdict = _verdict(averages, row["method_config"], audits)
        gains = {view: _gain(averages, method, plain, view, ratio) for view in VIEWS}
        shares = {moment: _partition(averages, method, moment) for moment in ("edges_kept", "entropy")}
        line = {
            "method": names[at],
            "n": shown_count(int(row["n"]), int(row["expected"])),
            "removal": verdict,
            "edges kept %": _share(shares["edges_kept"]),
            "label entropy %": _share(shares["entropy"]),
            **{f"gain, {view} pt": _gain_text(gains[view], plain.get(method) == method) for view in VIEWS},
        }
        if printed is not None:
            line = _beside(line, printed[method_names[method]])
        lines.append(line | {"status": status[at]})
        raw.append(_raw(row, verdict, shares, gains, plain.get(method, "")))
        reasons += [(method, view, one) for view, one in gains.items() if one is not None]
        if method in plain and not plain[method]:
            lacking.append(method)
    if not lines:
        return []
    heads = [head for head in lines[0] if head != "status" or any(line["status"] for line in lines)]
    caption = f"Characteristics, measured: {averages.group.name}."
    facets = with_facets(name, averages, pd.DataFrame(raw), **({"against": PAPER} if against else {}))
    unaudited = [line["method"] for line in lines if not line["removal"]]
    notes = tuple(_notes(averages, formula, lacking, unaudited, reasons, against))
    return [Table(name, caption, pd.DataFrame(lines, columns=heads), facets, notes)]


def plain_rows(averages: Aggregate) -> dict[str, str]:
    """Return for each sharded row the one with the same shards whose aggregator is the plain mean.

    Returns:
        Row to row; to itself where its own aggregator is the mean, to an empty name where there
        is none. Rows without an aggregator are left out.
    """
    parts: dict[str, str] = {}
    means: dict[str, list[str]] = {}
    for row, config in zip(averages.data["method"], averages.data["method_config"], strict=True):
        params = json.loads(config).get("params", {})
        aggregator = params.pop("aggregator", None)
        if isinstance(aggregator, dict) and "partitioner" in params:
            parts[row] = canonical_json(params)
            if aggregator.get("name") == PLAIN:
                means.setdefault(parts[row], []).append(row)
    return {row: row if row in means.get(shards, []) else means.get(shards, [""])[0] for row, shards in parts.items()}


def _verdict(averages: Aggregate, config: str, audits: pd.DataFrame | None) -> str:
    if audits is None or audits.empty:
        return ""
    facets = {**averages.group.facets, "method_config": config}
    here = audits
    for column in _SAME:
        here = here[here[column] == facets[column]]
    return ", ".join(sorted(set(latest_audits(here, AUDIT)["verdict"]) - {""}))


def _gain(averages: Aggregate, row: str, plain: dict[str, str], view: str, ratio: float) -> Paired | None:
    other = plain.get(row)
    if not other or other == row:
        return None
    return corrected_paired_t(paired_differences(scores(averages, row, view), scores(averages, other, view)), ratio)


def _partition(averages: Aggregate, row: str, what: str) -> list[float]:
    """List a share over the repetitions of a row: of edges kept, or of the graph's label entropy."""
    cells = averages.chosen[(averages.chosen["row"] == row) & (averages.chosen["status"] == "ok")].drop_duplicates(UNIT)
    if what == "edges_kept":
        return known(cells["edges_kept"])
    positive = cells[cells["graph_entropy"] > 0]
    return known(positive["label_entropy"] / positive["graph_entropy"])


def _share(values: list[float]) -> str:
    centre = mean(values)
    return "" if centre is None else formatting.percent(centre, sample_sd(values))


def _gain_text(gain: Paired | None, is_plain: bool) -> str:
    if is_plain:
        return "is the mean"
    return "" if gain is None or gain.mean is None else formatting.difference(gain.mean, gain.low, gain.high)


def _beside(line: dict[str, str], printed: pd.Series[Any]) -> dict[str, str]:
    """Put the paper's mark in front of each number that measures it."""
    columns = {measured: aspect for aspect, measured in ASPECTS.items()}
    merged: dict[str, str] = {}
    for head, text in line.items():
        if head in columns:
            merged[f"paper: {columns[head]}"] = str(printed[columns[head]])
        merged[head] = text
    return merged


def _raw(
    row: pd.Series[Any], verdict: str, shares: dict[str, list[float]], gains: dict[str, Paired | None], plain: str
) -> dict[str, Any]:
    line = {"method": row["method"], "n": row["n"], "expected": row["expected"], "verdict": verdict}
    for name, values in shares.items():
        column = "edges_kept" if name == "edges_kept" else "label_entropy_over_graph"
        line |= {f"{column}_mean": mean(values), f"{column}_sd": sample_sd(values)}
    line["plain_mean"] = plain
    for view, one in gains.items():
        for key in ("n", "mean", "low", "high", "p"):
            line[f"gain_{view}_{key}"] = getattr(one, key) if one else None
    return {**line, "method_config": row["method_config"]}


def _notes(
    averages: Aggregate,
    formula: str,
    lacking: list[str],
    unaudited: list[str],
    reasons: list[tuple[str, str, Paired]],
    against: bool,
) -> Iterator[str]:
    yield (
        f"n: repetitions of {averages.group.units} with status ok, mean ± sample standard deviation (none for n = 1)."
    )
    if against:
        yield (
            "paper: what Table 1 claims (Accurate Removal, Structural Preservation, Semantic Preservation, Effective"
            " Ensemble). It gives no numbers, so nothing is marked."
        )
    yield (
        f"removal: verdict of the audit {AUDIT} for this dataset, model, device and method, whatever the request; of"
        " several repetitions all verdicts."
    )
    if unaudited:
        yield (
            f"No verdict for {', '.join(unaudited)}: `unlearnbench audit {AUDIT}` with these methods and the same --out"
            " finds it."
        )
    yield (
        "edges kept: share of training edges with both ends in one shard. label entropy: mean over shards, by size, of"
        " the entropy of their labels over that of all training labels; 100 %: every shard has the mix of the whole."
    )
    yield (
        "gain: F1 of the method - F1 of the same shards with the plain mean of probabilities, within repetitions,"
        f" points, 95 % interval; {formula}."
    )
    if lacking:
        yield (
            f"No gain for {', '.join(lacking)}: no row has the same partitioner and shards with aggregator {PLAIN}."
            " Run sharded[partitioner=...,aggregator=mean] or `unlearnbench run --experiment factorial` into the same"
            " --out."
        )
    yield from reason_notes(reasons)
    yield from origin_notes(averages, has_views=True)
    yield from averages.notes
