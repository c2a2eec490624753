"""The paper's claims asked of every cell; numbers worked by hand on made records."""

from __future__ import annotations

import math

import numpy as np
import pytest
from record_samples import make_record
from scipy.stats import t as student

from unlearnbench.errors import NothingMatchedError, UsageError
from unlearnbench.records.record import Record
from unlearnbench.report import frame_of
from unlearnbench.report.tables.index import build_tables
from unlearnbench.report.tables.render import FORMATS, render
from unlearnbench.report.tables.table import Table
from unlearnbench.statistics import Paired, corrected_paired_t
from unlearnbench_graphrevoker.paper.claims import HOLDS, OPEN, REVERSED, verdict

WOBBLE = (0.02, -0.01, 0.0, 0.01, -0.02, 0.0)


def rows(
    method: str, f1: float, model: str = "gcn", turn: int = 0, repetitions: int = 6, label: str = ""
) -> list[Record]:
    by = np.roll(WOBBLE, turn)[:repetitions]
    return [
        make_record(method, r, shard=f1 + wobble, full=f1 + 0.05 + wobble, model=model, label=label)
        for r, wobble in enumerate(by)
    ]


def cell(model: str, mine: float, sisa: float, grapheraser: float) -> list[Record]:
    return [
        *rows("retrain", 0.85, model),
        *rows("graphrevoker", mine, model, 1),
        *rows("sisa", sisa, model, 2),
        *rows("grapheraser", grapheraser, model, 3),
    ]


def build(records: list[Record]) -> list[Table]:
    return build_tables(frame_of(records), "claims")


def test_a_cell_by_hand() -> None:
    shard, full = build(cell("gcn", 0.80, 0.75, 0.70))
    row = shard.data.iloc[0]
    assert row["difference"] == pytest.approx(0.80 - 0.7875)
    reach = student.ppf(0.975, 5) * np.std(WOBBLE, ddof=1) * math.sqrt(1 / 6 + 1 / 7)
    assert row["high"] - row["difference"] == pytest.approx(reach)
    gap = corrected_paired_t(list(0.80 - 0.85 + np.roll(WOBBLE, 1) - np.array(WOBBLE)), 1 / 7)
    assert row["to_retrain_mean"] == pytest.approx(-0.05)
    assert row["to_retrain_low"] == pytest.approx(gap.low)
    lead = corrected_paired_t(list(0.05 + np.roll(WOBBLE, 1) - np.roll(WOBBLE, 2)), 1 / 7)
    assert row["to_sisa_p"] == pytest.approx(lead.p)
    assert not row["is_outside"]
    assert full.data.iloc[0]["view"] == "full"
    assert full.data.iloc[0]["is_outside"]
    assert full.shown.iloc[0]["outside"] == "x"


def test_holm_is_over_all_cells_of_a_view() -> None:
    alone = build(cell("gcn", 0.80, 0.77, 0.70))[0].data.iloc[0]
    among = build([*cell("gcn", 0.80, 0.77, 0.70), *cell("gat", 0.80, 0.79, 0.79)])[0].data
    two = among[among["model"] == "gcn"].iloc[0]
    assert two["to_sisa_p"] == alone["to_sisa_p"]
    assert two["to_sisa_p_holm"] > alone["to_sisa_p_holm"]


def test_orderings_are_counted() -> None:
    records = [*cell("gcn", 0.85, 0.70, 0.70), *cell("gat", 0.80, 0.80, 0.70), *cell("sage", 0.60, 0.80, 0.55)]
    shard = build(records)[0]
    assert dict(zip(shard.shown["model"], shard.shown["ordering"], strict=True)) == {
        "gcn": HOLDS,
        "gat": OPEN,
        "sage": REVERSED,
    }
    said = "\n".join(shard.notes)
    assert "holds in 1, not shown in 1, reversed in 1 of 3 cells" in said
    assert "Mean gap to Retrain over 3 cells: -10.00 points, from -25.00 to 0.00." in said
    for style in FORMATS:
        assert "nan" not in render([shard], style).lower()


def test_verdict_needs_every_baseline() -> None:
    up, down = Paired(6, 0.0, mean=0.1), Paired(6, 0.0, mean=-0.1)
    assert verdict([up, up], [0.01, 0.04]) == HOLDS
    assert verdict([up, up], [0.01, 0.06]) == OPEN
    assert verdict([up, up], [0.01, None]) == OPEN
    assert verdict([up, down], [0.01, 0.01]) == REVERSED
    assert verdict([up, down], [0.01, 0.06]) == OPEN


def test_only_defaults_and_complete_cells_stand_there() -> None:
    whole = cell("gcn", 0.80, 0.75, 0.70)
    preset = rows("graphrevoker", 0.1, label="graphrevoker[preset=paper]")
    for record in preset:
        record.cell["method"] |= {"params": {"sem_sign": "paper"}, "preset": "paper"}
    lacking = [record for record in cell("gat", 0.80, 0.75, 0.70) if record.cell["method"]["name"] != "sisa"]
    few = [record for record in cell("sage", 0.80, 0.75, 0.70) if record.cell["repetition"] < 4]
    shard = build([*whole, *preset, *lacking, *few])[0]
    assert list(shard.shown["model"]) == ["gcn"]
    assert shard.data.iloc[0]["f1_micro_mean"] == pytest.approx(0.80)


def test_nothing_to_claim_is_told() -> None:
    with pytest.raises(NothingMatchedError, match="Table claims") as caught:
        build(rows("retrain", 0.8))
    assert "graphrevoker-www24" in caught.value.hint
    with pytest.raises(UsageError, match="always stands against the paper"):
        build_tables(frame_of(rows("retrain", 0.8)), "claims", against="paper")
