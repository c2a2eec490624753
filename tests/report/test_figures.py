"""Figures on paper, the numbers they share with the page, and the look of each method."""

from __future__ import annotations

import itertools
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from page_samples import METHODS, R, deletions, grid_of_parts, sample_records, spread
from record_samples import make_record

from unlearnbench.errors import NothingMatchedError, UsageError
from unlearnbench.records.record import Record
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.looks import SHAPES
from unlearnbench.report.figures.colours import CONTROL, HEAT, PALETTE, find_looks, luminance
from unlearnbench.report.figures.series import heats, lines, points, stacks, tags
from unlearnbench.report.frame.aggregate import Aggregate, aggregate
from unlearnbench.report.frame.frame import frame_of
from unlearnbench.report.frame.record_groups import group_records
from unlearnbench.report.tables.cost import find_curves
from unlearnbench.report.tables.factorial import factorial_tables

# What dichromats see of linear RGB (Machado, Oliveira and Fernandes 2009, severity 1).
SEEN = {
    "all": np.eye(3),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
# Linear RGB to Oklab (Ottosson 2020), in which equal steps look equal.
CONES = [
    [0.4122214708, 0.5363325363, 0.0514459929],
    [0.2119034982, 0.6806995451, 0.1073969566],
    [0.0883024619, 0.2817188376, 0.6299787005],
]
OKLAB = [
    [0.2104542553, 0.7936177850, -0.0040720468],
    [1.9779984951, -2.4285922050, 0.4505937099],
    [0.0259040371, 0.7827717662, -0.8086757660],
]


@pytest.fixture(autouse=True)
def no_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare half of the time: statsmodels collects garbage at every adjustment."""
    monkeypatch.setattr("gc.collect", lambda *_: 0)


LOOKS = find_looks(load_catalogue())


def seen(colour: str, by: str) -> Any:
    shares = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    linear = np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)
    return np.array(OKLAB) @ np.cbrt(np.array(CONES) @ np.clip(np.array(SEEN[by]) @ linear, 0, 1))


def apart(one: str, other: str) -> float:
    return min(float(np.linalg.norm(seen(one, by) - seen(other, by))) for by in SEEN)


def group(records: list[Record]) -> Aggregate:
    (found,) = group_records(frame_of(records))
    return aggregate(found)


# --- looks


def test_every_method_of_the_package_has_a_look_of_its_own() -> None:
    assert set(LOOKS.announced) == set(load_catalogue().names("unlearner"))
    assert len(set(LOOKS.announced.values())) == len(LOOKS.announced)
    # One colour is one method's; controls share a grey.
    colours = [one.colour for one in LOOKS.announced.values() if one.colour != CONTROL]
    assert len(set(colours)) == len(colours)
    assert set(PALETTE) == set(colours) - {LOOKS.of("retrain").colour}


def test_colours_are_told_apart_by_people_who_do_not_see_all_of_them() -> None:
    always = [LOOKS.of(name).colour for name in ("retrain", "sisa", "grapheraser", "graphrevoker")]
    assert min(apart(one, other) for one, other in itertools.combinations(always, 2)) > 0.08
    for one, other in itertools.combinations(LOOKS.announced.values(), 2):
        assert one.shape != other.shape or apart(one.colour, other.colour) > 0.06, (one, other)
    steps = [luminance(colour) for colour in HEAT]
    assert steps == sorted(steps)
    assert min(apart(one, other) for one, other in itertools.pairwise(HEAT)) > 0.05


def test_a_strange_method_looks_the_same_whatever_stands_beside_it() -> None:
    assert LOOKS.of("stranger") == LOOKS.of("stranger")
    assert len({LOOKS.of(f"stranger-{at}") for at in range(40)}) > 20
    for name in ("stranger", "other", ""):
        assert LOOKS.of(name).shape in SHAPES
        assert LOOKS.of(name).colour not in (CONTROL, LOOKS.of("retrain").colour)


# --- numbers


def test_points_are_means_and_what_lacks_one_is_named() -> None:
    found = group(
        [
            *spread("sisa", 0.78, 0.5),
            *[make_record("scrub", r, status="error") for r in range(R)],
            *[make_record("gif", r, seconds=None) for r in range(R)],
        ]
    )
    drawn, lacking = points(found, "shard")
    assert [(one.row, one.method, one.score, one.seconds) for one in drawn] == [
        ("sisa", "sisa", pytest.approx(0.78), pytest.approx(0.5))
    ]
    assert drawn[0].score_sd == pytest.approx(np.std([0.01, -0.01, 0, 0.02, -0.02], ddof=1))
    assert lacking == {"scrub": f"failed {R}", "gif": "no time"}
    alone, _ = points(group([make_record("sisa")]), "shard")
    assert (alone[0].score_sd, alone[0].seconds_sd) == (None, None)


def phased(repetition: int, **seconds: float) -> Record:
    names = {"retrain": "unlearn/retrain", "aggregator": "unlearn/aggregate", "fit": "fit", "train": "train"}
    phases = [{"name": names[name], "seconds": value} for name, value in seconds.items()]
    return make_record("sisa", repetition, seconds=2.0, phases=phases)


def test_a_phase_stands_apart_where_every_record_has_it() -> None:
    found = group([phased(0, retrain=1.0, aggregator=0.5, fit=4.0), phased(1, retrain=1.5, fit=4.0, train=3.0)])
    (unlearn,), (fit,) = stacks(found, "unlearn"), stacks(found, "fit")
    assert (unlearn.total, unlearn.parts) == (2.0, {"retrain": 1.25, "other": 0.75})
    assert (fit.total, fit.parts) == (4.0, {"other": 4.0})


def test_heat_is_the_factorial_table() -> None:
    found = group(grid_of_parts())
    (heat,) = heats(found)
    table = factorial_tables("factorial", found)[0]
    assert heat.table.shown.equals(table.shown)
    assert heat.scores["shard", "gpa", "contrastive"] == pytest.approx(0.75)
    assert (heat.partitioners, heat.aggregators) == (("random", "gpa"), ("mean", "contrastive"))


def test_a_line_has_two_numbers_of_deletions_or_more() -> None:
    records = [deletions(count, "retrain", 1.0) for count in (1, 16)]
    records += [deletions(1, "sisa", 0.25), deletions(16, "sisa", 2.0), deletions(16, "gif", 1.0)]
    (curve,) = find_curves(frame_of(records))
    drawn, lacking = lines(curve)
    assert (list(drawn), lacking) == (["retrain", "sisa"], ["gif"])
    # The ratio goes from 0.25 at 1 to 2 at 16.
    assert curve.even["sisa"] == pytest.approx(1 + 15 * 0.75 / 1.75)
    assert (curve.even["gif"], curve.counts, "retrain" in curve.even) == (0.0, [1, 16], False)


def test_variants_of_one_method_are_numbered() -> None:
    assert tags([("retrain", "retrain"), ("a", "sharded"), ("sisa", "sisa"), ("b", "sharded")]) == {"a": "1", "b": "2"}


# --- on paper


@pytest.mark.slow
def test_every_figure_has_the_width_of_a_column_and_of_a_page(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from unlearnbench.report.figures.figures import WIDTHS, write_figures

    written = list(write_figures(frame_of(grid_of_parts()), tmp_path / "figures"))
    kinds = ["f1-time", "parts", "phases"]
    name = "cora-gcn-on-cpu-forgetting-0.5pc-of-nodes"
    assert sorted(path.name for path in written) == sorted(
        f"{kind}-{name}-{width}{ending}" for kind in kinds for width in WIDTHS for ending in (".png", ".pdf", ".svg")
    )
    for path in written:
        width = WIDTHS[path.stem.rpartition("-")[2]]
        data = path.read_bytes()
        if path.suffix == ".png":
            assert struct.unpack(">I", data[16:20])[0] == pytest.approx(300 * width, abs=1)
        elif path.suffix == ".svg":
            assert f'width="{72 * width:g}pt"' in data.decode()
        else:
            assert b"/FontType 42" in data or b"/CIDFontType2" in data
            assert b"/Type3" not in data
            box = data.split(b"/MediaBox [")[1].split(b"]")[0].split()
            assert float(box[2]) == pytest.approx(72 * width, abs=0.5)


@pytest.mark.slow
@pytest.mark.parametrize("width", [3.35, 7.0])
def test_a_long_legend_of_long_names_covers_nothing_and_is_not_cut(width: float) -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from unlearnbench.report.figures.figures import phases_figure, time_figure

    long = "partitioner=gpa[balance=released],aggregator=weighted[normalise=end,pool=prob]"
    names = [f"sharded[{long},num_shards={at}]" for at in range(30)]
    records = [make_record("sharded", label=name, params={"at": at}) for at, name in enumerate(names)]
    (group,) = group_records(frame_of(records))
    found = aggregate(group)
    figure = time_figure(found, None, LOOKS, width)
    FigureCanvasAgg(figure).draw()
    (legend,) = figure.legends
    box = legend.get_window_extent()
    assert min(box.x0, box.y0) >= 0
    assert box.x1 <= figure.bbox.x1
    assert all(box.y1 <= panel.get_tightbbox().y0 for panel in figure.axes)
    figure = phases_figure(found, LOOKS, width)
    FigureCanvasAgg(figure).draw()
    for panel in figure.axes:
        panels = panel.get_window_extent()
        assert panels.width > 0.4 * figure.bbox.width
        assert all(text.get_window_extent().x1 <= 1.02 * panels.x1 for text in panel.texts)


@pytest.mark.slow
def test_the_same_records_give_the_same_figures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from unlearnbench.report.figures.figures import write_figures

    # Without a score there is no other figure than that of phases.
    frame = frame_of([make_record("sisa", metrics={})])
    first, second = ([path.read_bytes() for path in write_figures(frame, tmp_path / name)] for name in ("a", "b"))
    assert len(first) == 6
    assert first == second


def colours_of(panel: Any) -> dict[str, str]:
    from matplotlib.colors import to_hex

    return {to_hex(line.get_color()).upper(): line.get_marker() for line in panel.lines if line.get_marker() != "None"}


@pytest.mark.slow
def test_a_method_has_its_colour_in_every_figure() -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.colors import to_hex

    from unlearnbench.report.figures.figures import cost_figure, phases_figure, time_figure

    found = group([one for name, (score, seconds) in METHODS.items() for one in spread(name, score, seconds)])
    expected = {LOOKS.of(name).colour.upper(): SHAPES[LOOKS.of(name).shape] for name in METHODS}
    for panel in time_figure(found, None, LOOKS, 7.0).axes:
        assert {colour: mark for colour, mark in colours_of(panel).items() if colour in expected} == expected
    for panel in phases_figure(found, LOOKS, 3.35).axes:
        assert {to_hex(bar.get_facecolor()).upper() for bar in panel.patches} == set(expected)
    records = [deletions(count, name, 1.0 + count) for name in ("retrain", "sisa") for count in (1, 16)]
    (curve,) = find_curves(frame_of(records))
    (panel,) = cost_figure(curve, LOOKS, 3.35).axes
    assert {LOOKS.of("retrain").colour.upper(), LOOKS.of("sisa").colour.upper()} <= set(colours_of(panel))


def test_the_cost_figure_marks_where_retrain_is_as_fast() -> None:
    pytest.importorskip("matplotlib")
    from unlearnbench.report.figures.figures import cost_figure

    records = [deletions(count, "retrain", 1.0) for count in (1, 16)]
    records += [deletions(1, "sisa", 0.25), deletions(16, "sisa", 2.0)]
    (curve,) = find_curves(frame_of(records))
    figure = cost_figure(curve, LOOKS, 3.35)
    (panel,) = figure.axes
    (ring,) = [line for line in panel.lines if line.get_markerfacecolor() == "none"]
    assert (list(ring.get_xdata()), list(ring.get_ydata())) == ([curve.even["sisa"]], [1.0])
    assert [text.get_text() for text in panel.get_xticklabels()] == ["1", "16"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["retrain", "sisa (break-even: 7)"]


def test_a_height_between_two_points_is_on_the_straight_line_that_is_drawn() -> None:
    import pandas as pd

    from unlearnbench.report.figures.figures import between

    # From (1, 1) to (100, 100) the line of a log-log plot is the diagonal.
    assert between(pd.DataFrame({"deletions": [1, 100], "seconds": [1.0, 100.0]}), 10) == pytest.approx(10)


def test_figures_that_cannot_be_drawn_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from unlearnbench.report.figures.figures import check_figures, write_figures

    with pytest.raises(NothingMatchedError):
        list(write_figures(frame_of([make_record("sisa", status="error", seconds=None, phases=[])]), tmp_path))
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="no folder"):
        check_figures(tmp_path / "file")
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    monkeypatch.delitem(__import__("sys").modules, "matplotlib.figure", raising=False)
    with pytest.raises(UsageError, match="matplotlib"):
        check_figures(tmp_path)


def test_figures_are_of_records_that_ended_well() -> None:
    from unlearnbench.report.figures.figures import find_figures

    names = [name for name, _ in find_figures(frame_of(sample_records()))]
    assert sum(name.startswith("f1-time") for name in names) == 5
    assert sum(name.startswith("cost") for name in names) == 1
