"""A table for a paper, in LaTeX: methods by datasets, as wide as a column of text or as a page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from unlearnbench.component import canonical_json
from unlearnbench.errors import NothingMatchedError, UsageError, unknown_name
from unlearnbench.registry.brackets import Bracket, parse_bracket
from unlearnbench.registry.catalogue import Catalogue
from unlearnbench.report.frame.aggregate import Aggregate, aggregate
from unlearnbench.report.frame.metrics import MICRO_F1
from unlearnbench.report.frame.record_groups import distinguish, group_records
from unlearnbench.report.tables import formatting

POINTS = {"column": 225.0, "page": 340.0}
"""Room in points: a column of two, and a page with one, of `article` and `acmart`, the narrower of both."""
# Footnotesize in Computer Modern and in Libertine: the widest a character is on average, with some air.
MISSING = "--"
# Of a ratio or a time; less is written as less.
LEAST = 0.01
_CHARACTER, _GAP, _NAME = 4.6, 6.0, 92.0
TITLES = {
    **{
        "cora": "Cora",
        "citeseer": "CiteSeer",
        "pubmed": "PubMed",
        "ogbn-arxiv": "ogbn-arxiv",
        "blogcatalog": "BlogCatalog",
    },
    **{"gcn": "GCN", "gat": "GAT", "sage": "GraphSAGE", "appnp": "APPNP", "jknet": "JKNet", "gin": "GIN"},
    **{"gatv2": "GATv2", "sgc": "SGC", "gcn2": "GCNII"},
}
"""How datasets and models of the package are written in papers."""


@dataclass(frozen=True)
class PaperColumn:
    """A column that can be chosen.

    Args:
        head: In LaTeX.
        value: The column of the averages.
        spread: That of the standard deviation, if it is shown.
        factor: What the value is multiplied by.
        decimals: How many are shown; None: as many as a ratio or a time needs.
        meaning: For the notes, in LaTeX.
    """

    head: str
    value: str
    spread: str
    factor: float
    decimals: int | None
    meaning: str


COLUMNS = {
    "f1-full": PaperColumn(
        "F1",
        f"{MICRO_F1}_full_mean",
        f"{MICRO_F1}_full_sd",
        100,
        1,
        r"F1: micro-F1 in \%, over all retained nodes",
    ),
    "f1-shard": PaperColumn(
        "F1 shard",
        f"{MICRO_F1}_shard_mean",
        f"{MICRO_F1}_shard_sd",
        100,
        1,
        r"F1 shard: micro-F1 in \%, each member over its shard",
    ),
    "time": PaperColumn("time", "times_retrain", "", 1, None, "time: to unlearn, relative to Retrain"),
    "seconds": PaperColumn("s", "unlearn_seconds_mean", "unlearn_seconds_sd", 1, None, "s: seconds to unlearn"),
    "memory": PaperColumn("MiB", "unlearn_peak_rss_mib", "", 1, 0, "MiB: peak of resident memory"),
}
"""What `report --columns` chooses from."""


def paper_tables(
    frame: pd.DataFrame,
    catalogue: Catalogue,
    columns: Sequence[str] = ("f1-full", "time"),
    width: str = "column",
    all_variants: bool = False,
    command: str = "",
) -> str:
    """Write one table for each model, request and training: a row a method, columns for each dataset.

    Args:
        frame: What `load_records` returned, or a part of it.
        catalogue: Where the titles of methods are looked up.
        columns: Keys of `COLUMNS`.
        width: A key of `POINTS`: datasets that have no room beside each other stand below each other.
        all_variants: Show methods with other than their default parameters too.
        command: What makes the table, for a comment.

    Raises:
        UsageError: An unknown column or width.
        NothingMatchedError: Nothing is there to show.
    """
    for name in columns:
        if name not in COLUMNS:
            raise unknown_name("column", name, COLUMNS)
    if width not in POINTS or not columns:
        raise UsageError(
            f"A table for a paper is {' or '.join(POINTS)} wide and has columns.", "Example: f1-full,time."
        )
    places: dict[str, list[Aggregate]] = {}
    for group in group_records(frame):
        places.setdefault(_place(group.facets), []).append(aggregate(group))
    shown = {place: groups for place, groups in places.items() if any(_rows(groups, all_variants))}
    captions = distinguish({place: _caption(groups[0].group.facets) for place, groups in shown.items()})
    chosen = [COLUMNS[name] for name in columns]
    texts = [
        "\n".join(_table(captions[place], groups, catalogue, chosen, width, all_variants, command))
        for place, groups in shown.items()
    ]
    if not texts:
        raise NothingMatchedError("No record has what the table shows.", "Make some with `unlearnbench run`.")
    return "\n\n".join(texts)


def _place(facets: Mapping[str, str]) -> str:
    """Return what the datasets of one table share."""
    protocol = {key: value for key, value in json.loads(facets["protocol_config"]).items() if key != "split"}
    parts = {name: json.loads(facets[f"{name}_config"]) for name in ("model", "training", "other")}
    return canonical_json({"protocol": protocol, **parts, "device": facets["device"]})


def _caption(facets: Mapping[str, str]) -> str:
    apart = "" if facets["protocol"] == "www24" else f", protocol {facets['protocol']}"
    return f"{_named(facets['model'])}: {facets['forget']} forgotten{apart}"


def _rows(groups: Sequence[Aggregate], all_variants: bool) -> dict[str, tuple[str, str]]:
    """Return name and label of each row by the text it is found by, Retrain first, in the order of tables."""
    rows: dict[str, tuple[str, str]] = {}
    for one in groups:
        known = one.group.frame.drop_duplicates("row").set_index("row")
        for row in one.group.rows:
            name, label = str(known.loc[row, "method_name"]), str(known.loc[row, "label"])
            if all_variants or label == name:
                rows.setdefault(row, (name, label))
    return rows


def _table(
    caption: str,
    groups: Sequence[Aggregate],
    catalogue: Catalogue,
    columns: Sequence[PaperColumn],
    width: str,
    all_variants: bool,
    command: str,
) -> Iterator[str]:
    first = groups[0].group.facets
    rows = _rows(groups, all_variants)
    names = {row: _method(catalogue, *found) for row, found in rows.items()}
    bodies = [_cells(one, rows, columns) for one in groups]
    heads = [_title(one.group.facets["dataset"]) for one in groups]
    star = "*" if width == "page" else ""
    yield r"% needs \usepackage{booktabs}"
    yield rf"\begin{{table{star}}}[t]" if star else r"\begin{table}[t]"
    yield r"\centering"
    yield rf"\caption{{Unlearning with {_escaped(caption)}.}}"
    _, _, apart = caption.partition(" {")
    yield rf"\label{{tab:{_slug(first['model'], first['forget'], first['protocol'], apart)}}}"
    yield r"\footnotesize\setlength{\tabcolsep}{3pt}"
    room_of_names = min(_NAME, max(map(_width, ["method", *names.values()])))
    widths = [max(_width(head), _room(body, columns)) for head, body in zip(heads, bodies, strict=True)]
    for block in _blocks(widths, POINTS[width] - room_of_names):
        yield from _tabular([heads[at] for at in block], [bodies[at] for at in block], names, columns, room_of_names)
    yield r"\par\smallskip"
    yield rf"\begin{{minipage}}{{\linewidth}}\scriptsize {_notes(groups, columns)}\end{{minipage}}"
    yield rf"\end{{table{star}}}"
    if command:
        yield f"% {command}"


def _cells(one: Aggregate, rows: Mapping[str, Any], columns: Sequence[PaperColumn]) -> dict[str, list[str]]:
    data = {str(line["method"]): line for _, line in one.data.iterrows()}
    return {row: [_cell(data[row], column) if row in data else MISSING for column in columns] for row in rows}


def _cell(row: pd.Series[Any], column: PaperColumn) -> str:
    if pd.isna(row[column.value]):
        return MISSING
    value = column.factor * float(row[column.value])
    spread = row[column.spread] if column.spread else None
    sd = None if spread is None or pd.isna(spread) else column.factor * float(spread)
    if column.decimals is None and value < LEAST:
        return f"$<${LEAST:g}"
    if column.decimals is None:
        text = formatting.ratio(value, sd)
    else:
        text = f"{value:.{column.decimals}f}" + ("" if sd is None else f" ± {sd:.{column.decimals}f}")
    return text.replace("-", "$-$").replace(" ± ", r"\,$\pm$\,")


def _width(text: str) -> float:
    """Estimate the width of a text in points."""
    plain = re.sub(r"\\,|\\allowbreak |\\[a-z]+\{?|[{}$]", "", text.replace(r"\pm", "+-"))
    return _CHARACTER * len(plain) + _GAP


def _room(body: Mapping[str, Sequence[str]], columns: Sequence[PaperColumn]) -> float:
    """Estimate the width of one dataset's columns in points."""
    return sum(
        max(_width(column.head), *(_width(cells[at]) for cells in body.values())) for at, column in enumerate(columns)
    )


def _blocks(widths: Sequence[float], room: float) -> Iterator[list[int]]:
    """Yield the positions of the datasets that stand beside each other."""
    block: list[int] = []
    for at, width in enumerate(widths):
        if block and sum(widths[other] for other in block) + width > room:
            yield block
            block = []
        block.append(at)
    if block:
        yield block


def _tabular(
    heads: Sequence[str],
    bodies: Sequence[Mapping[str, Sequence[str]]],
    names: Mapping[str, str],
    columns: Sequence[PaperColumn],
    room_of_names: float,
) -> Iterator[str]:
    count = len(columns)
    yield rf"\begin{{tabular}}{{@{{}}p{{{room_of_names:.0f}pt}}{'r' * count * len(heads)}@{{}}}}"
    yield r"\toprule"
    if count == 1:
        yield rf"method & {' & '.join(heads)} \\"
    else:
        yield " & ".join(["", *(rf"\multicolumn{{{count}}}{{c}}{{{head}}}" for head in heads)]) + r" \\"
        yield "".join(rf"\cmidrule(lr){{{2 + at * count}-{1 + (at + 1) * count}}}" for at in range(len(heads)))
        yield " & ".join(["method", *(column.head for _ in heads for column in columns)]) + r" \\"
    yield r"\midrule"
    for row, name in names.items():
        cells = [cell for body in bodies for cell in body[row]]
        if set(cells) != {MISSING}:
            yield " & ".join([rf"\raggedright {name}", *cells]) + r" \\"
    yield r"\bottomrule"
    yield r"\end{tabular}\par\medskip"


def _notes(groups: Sequence[Aggregate], columns: Sequence[PaperColumn]) -> str:
    counts = sorted({one.group.units for one in groups})
    shown = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    spread = r", mean\,$\pm$\,standard deviation" if any(column.spread for column in columns) else ", mean"
    meanings = "; ".join(column.meaning for column in columns)
    return f"{shown} repetitions{spread}. {meanings}. --: not measured."


def _method(catalogue: Catalogue, name: str, label: str) -> str:
    """Return a method as papers write it, with what its label sets in brackets."""
    entries = catalogue.entries["unlearner"].get(name, [])
    title = (catalogue.load(entries[0]).title if entries else "") or name
    try:
        arguments = parse_bracket(label).arguments
    except UsageError:  # a plugin may label its rows as it likes
        return _escaped(label)
    inner = str(Bracket("", arguments))
    return _escaped(title) + (rf"\allowbreak {_escaped(inner)}" if arguments else "")


def _title(name: str) -> str:
    return _escaped(_named(name))


def _named(name: str) -> str:
    return TITLES.get(name) or name.replace("-", " ").title()


def _escaped(text: str) -> str:
    from unlearnbench.report.tables.render import escaped_latex

    return re.sub(r"([,=\[])", r"\1\\allowbreak ", escaped_latex(text))


def _slug(*texts: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", " ".join(texts).lower()).strip("-")
