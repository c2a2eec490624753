"""Tables of docs/findings.md: what forgets, and how far from Retrain it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from pages.evidence import DATASETS, LARGE, MODEL, REPETITIONS, REQUESTS, SMALL, Evidence, Row, Rows, method_of
from pages.tables import fixed, number, table
from unlearnbench.report.frame.plain_rows import plain_rows

LARGER = {"pubmed": "PubMed"}
PARTITIONED = ("graphrevoker", "grapheraser", "sisa", "sisa[partitioner=hash]")
ATTACKS = ("per target", "per target, both versions")
LEAKS = (("auc", ""), ("tpr", ", 1% false alarms"))
# With its default noise `idea` is as `gif`, and with that which its certificate is about it is near guessing.
LEFT_OUT = ("idea",)
EXACT = ("retrain", "sisa[partitioner=hash]", "tally", "sisa", "graphrevoker", "grapheraser", "guide")

Kinds = tuple[tuple[str, Callable[[Row], str]], ...]
"""What a table shows of each dataset: a heading, and how it is written."""


def forgetting(evidence: Evidence) -> list[str]:
    """Return the table of what forgets: exactness, who is recognised, how fast a model learns again."""
    rows = evidence.rows("forgetting", LARGE)
    kinds: Kinds = (("exactness", _verdict), ("recognised, %", _recognised), ("relearning", _relearning))
    return _lines(kinds, rows, (*EXACT, *_others(rows, "membership_tpr")))


def distances(evidence: Evidence) -> list[str]:
    """Return the table of distances from Retrain's predictions, with F1 after the small request."""
    rows = _joined(evidence.rows("summary", SMALL), evidence.rows("distances", LARGE))
    kinds: Kinds = (
        ("F1, %", _utility),
        ("forgotten", on_forgotten),
        ("neighbours", lambda row: _elsewhere(row, "hop_1")),
        ("test nodes", lambda row: _elsewhere(row, "test")),
    )
    return _lines(kinds, rows, (*EXACT, *_others(rows, "forgotten")))


def small_request(evidence: Evidence) -> list[str]:
    """Return the table of what approximate methods leave of a small request."""
    rows = _joined(evidence.rows("distances", SMALL), evidence.rows("forgetting", SMALL))
    kinds: Kinds = (("forgotten", on_forgotten), ("recognised, %", _recognised), ("relearning", _relearning))
    return _lines(kinds, rows, ("retrain", *_others(rows, "forgotten")))


def on_pubmed(evidence: Evidence) -> list[str]:
    """Return the table of methods without shards on a larger graph: distances, who is recognised, relearning."""
    rows = _joined(evidence.rows("distances", LARGE), evidence.rows("forgetting", LARGE))
    kinds: Kinds = (
        ("forgotten", on_forgotten),
        ("neighbours", lambda row: _elsewhere(row, "hop_1")),
        ("test nodes", lambda row: _elsewhere(row, "test")),
        ("recognised, %", _recognised),
        ("relearning", _relearning),
    )
    return _lines(kinds, rows, ("retrain", *_others(rows, "forgotten", LARGER)), LARGER)


def leakage(evidence: Evidence) -> list[str]:
    """Return the table of what a kept partition reveals: areas and true positive rates of the two attackers."""
    audits = evidence.audits
    wanted = audits["audit"].str.startswith("partition-leakage") & audits["where"].str.startswith("per target")
    rows = plain_rows(audits[wanted & (audits["model"] == MODEL)])
    scores: dict[tuple[str, str, str], Row] = {}
    for row in rows:
        place = str(row["dataset"]), method_of(row), f"{row['measure']} {row['where']}"
        assert place not in scores, f"two rows for {place}"
        scores[place] = row
    lines = []
    for dataset, name in DATASETS.items():
        for method in [method for method in PARTITIONED if (dataset, method, f"auc {ATTACKS[0]}") in scores]:
            cells = [f"{name}, {method}"]
            for attack in ATTACKS:
                area, rate = (scores[dataset, method, f"{measure} {attack}{add}"] for measure, add in LEAKS)
                interval = f"{fixed(number(area, 'low'), 2)} to {fixed(number(area, 'high'), 2)}"
                cells += [f"{fixed(number(area, 'value'), 2)} ({interval})", fixed(100 * rate["value"], 0)]
            lines.append(cells)
    head = ("area", "recognised, %")
    return table(["", *head, *(f"both versions: {head[0]}", head[1])], lines)


def _joined(more: Rows, rows: Rows) -> Rows:
    """Return rows with what another table has of the same place, too."""
    return {place: {**more.get(place, {}), **row} for place, row in rows.items()}


def _others(rows: Rows, name: str, datasets: Mapping[str, str] = DATASETS) -> list[str]:
    """Return the methods that are not exact, sorted by a number of the first dataset."""
    first = next(iter(datasets))
    numbers = {method: number(rows.get((first, method), {}), name) for _, method in rows}
    others = [method for method in numbers if method not in (*EXACT, *LEFT_OUT) and not method.startswith("smoothed")]
    return sorted(others, key=lambda method: (numbers[method] is None, numbers[method], method))


def _lines(kinds: Kinds, rows: Rows, methods: Iterable[str], datasets: Mapping[str, str] = DATASETS) -> list[str]:
    """Return the lines of a table: a method a row, of each kind one column for each dataset."""
    first, *others = datasets.values()
    head = [heading for name, _ in kinds for heading in ((f"{name}, {first}", *others) if others else (name,))]
    cells = {
        method: [shown(rows.get((dataset, method), {})) for _, shown in kinds for dataset in datasets]
        for method in methods
    }
    return table(["method", *head], ([method, *row] for method, row in cells.items() if any(row)))


def _text(row: Row, name: str) -> str:
    value = row.get(name)
    return value if isinstance(value, str) else ""


def _unknown(row: Row, name: str) -> str:
    """Return a question mark where no request gives a number, and nothing where none was asked."""
    return "?" if "cannot tell" in _text(row, f"{name}_state") else ""


def _of(row: Row, name: str) -> str:
    """Return of how many requests a mean is, where it is not of all."""
    return "" if (count := number(row, name)) in (None, REQUESTS) else f", n = {count:.0f}"


def _utility(row: Row) -> str:
    value, count = number(row, "f1_micro_full_mean"), number(row, "f1_micro_full_n")
    if value is None or count is None:
        return ""
    return f"{100 * value:.1f}" + ("" if count == REPETITIONS else f" [{count:.0f}]")


def _verdict(row: Row) -> str:
    text, distance = _text(row, "exactness"), number(row, "exactness_effect")
    text = re.sub(r"exact-given-partition \((ids|content)\)", r"exact, partition by \1", text)
    text = re.sub(r" \(([0-9]+)\)", r" \1", text)
    text = text if distance is None else f"{text} ({distance:.2f})"
    return text + _of(row, "exactness_n") if text else ""


def _recognised(row: Row) -> str:
    value, low, high = (number(row, f"membership_tpr{end}") for end in ("", "_low", "_high"))
    if value is None:
        return _unknown(row, "membership_tpr")
    between = "" if low is None or high is None else f" ({100 * low:.1f} to {100 * high:.1f})"
    return f"{100 * value:.1f}{between}{_of(row, 'membership_tpr_n')}"


def _relearning(row: Row) -> str:
    value, low, high = (number(row, f"relearning{end}") for end in ("", "_low", "_high"))
    if value is None:
        return _unknown(row, "relearning")
    between = "" if low is None or high is None or low == high else f" ({low:.2f} to {high:.2f})"
    return ("1" if value == 1 and not between else f"{value:.2f}{between}") + _of(row, "relearning_n")


def on_forgotten(row: Row) -> str:
    """Write the distance on the forgotten nodes, with its interval; `?` where no request gives a number."""
    value, low, high = (number(row, f"forgotten{end}") for end in ("", "_low", "_high"))
    if value is None:
        return _unknown(row, "forgotten")
    between = "" if low is None or high is None or low == high == 1 else f" ({fixed(low, 2)} to {fixed(high, 2)})"
    return f"{fixed(value, 2)}{between}{_of(row, 'forgotten_n')}"


def _elsewhere(row: Row, place: str) -> str:
    value = number(row, place)
    if value is None:
        return _unknown(row, place)
    of = number(row, f"{place}_n")
    return fixed(value, 2) + ("" if of == number(row, "requests") else f" [{of:.0f}]")
