"""The paper's F1 beside ours."""

from __future__ import annotations

import json
from collections.abc import Iterator

from unlearnbench.report import Aggregate, Matched, Published, Table, by_group, f1_against, of_cell
from unlearnbench_graphrevoker.paper.designs import ABLATIONS, METHOD, find_designs, lacks
from unlearnbench_graphrevoker.paper.numbers import PAPER, contradictions, published, zeroed

REQUEST = "0.5 % of nodes"
ABOUT = (
    "published: mean ± spread as printed; the paper does not say in which view, nor of what the spread is: most"
    " likely of repetitions on one split."
)


def is_papers(protocol_config: str) -> bool:
    """Whether a protocol is that of the paper's tables: nothing injected, inductive, one recipe for all."""
    protocol = json.loads(protocol_config)
    return bool(protocol["name"] == "www24") and {"poison", "setting"}.isdisjoint(protocol)


def matched(name: str, averages: Aggregate) -> tuple[list[Matched], list[str]]:
    """Find the paper's row for each row of a group.

    Tables of whole methods: every row of the method's name, whatever its preset, unless a loss is
    switched off; ablations: the row with the same weights at 0.

    Returns:
        The pairs in the order of the group's rows, and notes on rows that were passed over.
    """
    printed = of_cell(published(name), averages.group.facets["dataset"], averages.group.facets["model"])
    if not is_papers(averages.group.facets["protocol_config"]):
        printed = {}  # the paper's figure of the poison has no numbers, and its tables are inductive and not tuned
    if name in ABLATIONS:
        by_design = {zeroed(method): one for method, one in printed.items()}
        rows: dict[str, Published] = {}
        for designs in find_designs(averages.group, ABLATIONS[name]) if printed else ():
            rows |= {row: by_design[zero] for zero, row in designs.rows.items() if zero in by_design}
        return [Matched(row, one) for row, one in rows.items()], []
    methods = averages.group.frame.drop_duplicates("row").set_index("row")
    pairs, passed = [], []
    for row in averages.group.rows:
        method, config = str(methods.loc[row, "method_name"]), str(methods.loc[row, "method_config"])
        if method not in printed:
            continue
        if method == METHOD and lacks(config):
            passed.append(row)
        else:
            pairs.append(Matched(row, printed[method]))
    notes = (
        [f"Not compared, a loss is switched off: {', '.join(passed)}; see the tables of ablations."] if passed else []
    )
    return pairs, notes


def f1_tables(name: str, averages: Aggregate) -> list[Table]:
    """Build the table of a group with F1 of the paper; none if the paper has no such number.

    Args:
        name: `utility` or an ablation.
        averages: The group.
    """
    pairs, passed = matched(name, averages)
    remarks = [
        *request_note(averages),
        *contradictions(averages.group.facets["dataset"], averages.group.facets["model"]),
    ]
    return f1_against(name, averages, pairs, PAPER, ABOUT, remarks, passed)


def request_note(averages: Aggregate) -> Iterator[str]:
    """Warn where another share of nodes was forgotten than in the paper."""
    forget = averages.group.facets["forget"]
    if forget != REQUEST:
        yield f"The paper forgets {REQUEST}, these records {forget}: not the same experiment."


f1 = by_group(f1_tables)
