"""A program writes the tables of pages from the records, and nothing else."""

from __future__ import annotations

import importlib
import math
import re

import pandas as pd
import pytest
from repository import ROOT

PAGE = "Before.\n\n<!-- table squares -->\n\n| old |\n\n<!-- end -->\n\nAfter.\n"


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("write_pages")


@pytest.fixture
def tables(script):
    return importlib.import_module("pages.tables")


def squares(tables):
    return {"squares": lambda numbers: tables.table(["n", "square"], ([str(n), str(n * n)] for n in numbers))}


@pytest.mark.slow
def test_the_committed_pages_are_what_the_committed_records_say(script, tables):
    evidence = script.Evidence(ROOT / "results")
    for page, (known, view) in script.PAGES.items():
        text = (ROOT / page).read_text("utf-8")
        assert sorted(block["name"] for block in tables.BLOCK.finditer(text)) == sorted(known)
        assert text.count("<!-- table ") == len(known)
        assert not tables.stale(text, tables.written(text, known, view(evidence)))


def test_a_page_keeps_its_text_and_takes_the_numbers(tables):
    anew = tables.written(PAGE, squares(tables), [2, 3])
    assert anew == PAGE.replace("| old |", "| n | square |\n|---|---|\n| 2 | 4 |\n| 3 | 9 |")
    assert tables.written(anew, squares(tables), [2, 3]) == anew


@pytest.mark.parametrize(
    ("page", "named"),
    [
        (PAGE.replace("squares", "unknown"), "squares, unknown"),
        (PAGE.replace("<!-- table squares -->", "<!-- tabl squares -->"), "squares"),
        (PAGE.replace("squares", "Squares"), "<!-- table Squares -->, squares"),
        (PAGE + PAGE, "squares"),
        (PAGE.replace("\n\n<!-- end -->", "\n<!-- end -->") + PAGE.replace("squares", "cubes"), "cubes, squares"),
        (PAGE.replace("\n\n<!-- end -->", ""), "squares"),
    ],
)
def test_a_page_whose_marks_are_wrong_is_refused_before_prose_is_lost(tables, page, named):
    with pytest.raises(ValueError, match=re.escape(f"without an end: table {named}") + "$"):
        tables.written(page, squares(tables), [2, 3])


def test_a_stale_table_is_named_and_written_only_where_it_may_be(script, tables, monkeypatch, tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    monkeypatch.setattr(script, "PAGES", {"page.md": (squares(tables), lambda evidence: [evidence])})
    monkeypatch.setattr(script, "Evidence", lambda folder: 2)
    monkeypatch.setattr("sys.argv", ["write_pages.py", "--root", str(tmp_path), "--check"])
    with pytest.raises(SystemExit, match=r"page\.md: squares"):
        script.main()
    assert page.read_text() == PAGE
    monkeypatch.setattr("sys.argv", ["write_pages.py", "--root", str(tmp_path)])
    script.main()
    assert "| 2 | 4 |" in page.read_text()
    assert capsys.readouterr().out == "Written:\npage.md: squares\n"
    monkeypatch.setattr("sys.argv", ["write_pages.py", "--root", str(tmp_path), "--check"])
    script.main()
    assert capsys.readouterr().out == "Every table is what the records say.\n"


@pytest.mark.parametrize(("value", "written"), [(1.25, "1.2"), (-0.01, "0.0"), (None, "?"), (float("nan"), "?")])
def test_a_number_is_never_minus_nothing_and_a_missing_one_is_said(tables, value, written):
    assert tables.fixed(value, 1, "?") == written


def test_the_readme_says_what_most_requests_were_judged_as(script):
    readme = importlib.import_module("pages.readme")
    cases = {
        "exact": "exact",
        "exact-given-partition (ids)": "given partition",
        "none (2), approximate (3)": "approximate, 3 of 5",
        "approximate (3), none (2)": "approximate, 3 of 5",
        "exact-given-partition (ids) (4), none (1)": "given partition, 4 of 5",
        "": "",
    }
    assert {text: readme._verdict({"exactness": text}) for text in cases} == cases


def test_the_readme_shows_what_was_measured_beside_what_people_say(script):
    readme = importlib.import_module("pages.readme")

    class Known:
        def rows(self, table, forget):
            if table == "summary":
                assert forget == "0.5 % of nodes"
                return {("cora", "scrub"): {"f1_micro_full_mean": 0.8644, "times_retrain": 0.2054}}
            assert (table, forget) == ("forgetting", "5 % of nodes")
            return {("cora", "scrub"): {"exactness": "approximate", "membership_tpr": 0.1977}}

    lines = readme.methods(Known())
    assert "| `scrub` | Kurmanji, NeurIPS 2023 | n e | approximate | 19.8 | 86.4 | 0.21 |" in lines
    assert "| `noop` | control: nothing is done | n e f |  |  |  |  |" in lines


def test_a_verdict_stands_beside_the_distance_that_is_left(script):
    readme = importlib.import_module("pages.readme")
    assert (
        readme._verdict({"exactness": "partial (3), none (2)", "exactness_effect": 0.914}) == "partial, 3 of 5 (0.91)"
    )
    assert readme._verdict({"exactness": "approximate", "exactness_effect": 0.4}) == "approximate (0.40)"
    assert readme._verdict({"exactness": "exact", "exactness_effect": math.nan}) == "exact"


def test_a_cell_of_the_paper_has_ours_less_the_published_one_in_the_shard_view_and_leads_in_the_full_one(script):
    runs = importlib.import_module("pages.runs")
    columns = ("dataset", "model", "protocol", "forget", "label", "preset")
    asked = ("cora", "gcn", "www24", "0.5 % of nodes", "graphrevoker", "repaired")
    others = [("cora", "gcn", "tuned", *asked[3:]), (*asked[:3], "5 % of nodes", *asked[4:]), (*asked[:5], "paper")]

    class Known:
        runs = pd.DataFrame([asked, *others], columns=columns)

        def built(self, table, frame):
            assert (table, len(frame)) == ("claims", 1)
            lead = {
                f"to_{name}_{key}": value + more
                for name, value in (("retrain", -0.02), ("sisa", 0.03), ("grapheraser", 0.06))
                for key, more in (("mean", 0), ("low", -0.01), ("high", 0.01))
            }
            return [
                {"dataset": dataset, "model": model, "view": view, "published_f1_micro": 0.788, **lead}
                | {"difference": 0.006, "low": -0.024, "high": 0.036}
                for dataset in ("cora", "citeseer")
                for model in runs.MODELS
                for view in ("shard", "full")
            ]

    lines = runs.paper(Known())
    assert len(lines) == 12
    assert lines[2] == (
        "| Cora, gcn | 78.8 | 0.6 (-2.4 to 3.6) | -2.0 (-3.0 to -1.0) | 3.0 (2.0 to 4.0) | 6.0 (5.0 to 7.0) |"
    )


def test_a_gain_stands_beside_its_interval_for_each_partition_and_on_average(script):
    runs = importlib.import_module("pages.runs")
    asked = ("cora", "gcn", "www24", "0.5 % of nodes", "sharded")
    others = [("cora", "gat", *asked[2:]), (*asked[:3], "5 % of nodes", "sharded"), (*asked[:4], "sisa")]

    class Known:
        runs = pd.DataFrame([asked, *others], columns=("dataset", "model", "protocol", "forget", "method_name"))
        partitions = tuple(importlib.import_module("pages.runs").PARTITIONS)

        def built(self, table, frame):
            assert (table, len(frame)) == ("factorial", 1)
            gain = {"mean": 0.037, "low": 0.003, "high": 0.071}
            places = [{"dataset": d, "view": v} for d in ("cora", "citeseer") for v in ("shard", "full")]
            simple = [{**place, "with": one} for place in places for one in self.partitions]
            rows = [{**row, **gain, "level": "contrastive"} for row in (*simple, *places)]
            return [*rows, {**rows[0], "level": "weighted"}, {"dataset": "cora", "view": "shard", "f1_micro_mean": 0.8}]

    lines = runs.gains(Known())
    assert len(lines) == 2 + len(runs.PARTITIONS) + 1
    assert lines[2] == "| random |" + " 3.7 (0.3 to 7.1) |" * 4
    assert lines[-1].startswith("| average of 5 | 3.7 (")
    known = Known()
    known.partitions = ("random", "metis")
    with pytest.raises(AssertionError, match="other partitions"):
        runs.gains(known)


def test_f1_stands_at_four_moments_around_wrong_labels(script):
    runs = importlib.import_module("pages.runs")
    kinds = ["100 injected nodes", "250 mislabelled nodes"]

    class Known:
        runs = pd.DataFrame({"protocol": ["poison"] * 2, "forget": kinds})

        def built(self, table, frame):
            assert (table, list(frame["forget"])) == ("poison", kinds[:1])
            moments = {"clean_mean": 0.8614, "poisoned_mean": 0.8506, "unlearned_mean": 0.86, "fresh_mean": 0.8649}
            return [
                {"method": method, "dataset": dataset, "model": model, "view": view, **moments}
                for method in ("retrain", "sisa", "grapheraser (repaired)", "graphrevoker (repaired)", "noop")
                for dataset in ("cora", "citeseer")
                for model in ("gcn", "gat", "appnp")
                for view in ("shard", "full")
            ]

    lines = runs.poison(Known())
    assert len(lines) == 7
    assert lines[4] == "| grapheraser |" + " 86.1 / 85.1 / 86.0 / 86.5 |" * 6


def test_a_mean_over_five_models_needs_all_of_them(script):
    runs = importlib.import_module("pages.runs")
    rows = [
        {"dataset": "cora", "view": "full", "method": "sisa", "model": model, "difference": -0.02, "high": high}
        for model, high in zip(runs.MODELS, (-0.01, -0.01, 0.0, 0.01, 0.02), strict=True)
    ]
    assert runs._over_models(rows, "cora", "full", "sisa") == "-2.0 (2)"
    assert runs._over_models(rows[1:], "cora", "full", "sisa") == ""
    assert runs._over_models(rows, "cora", "shard", "sisa") == ""


def test_a_time_is_relative_to_retrain_and_says_from_when_on_that_is_as_fast(script):
    runs = importlib.import_module("pages.runs")
    columns = {"dataset": ["cora"], "model": ["gcn"], "forget": ["1 node"], "preset": [""], "repetition": [0]}
    times = {"retrain": (1.0, 1.0), "sisa": (0.5, 1.5), "tally": (0.1, 0.1), "graphrevoker (repaired)": (2.0, 3.0)}

    class Known:
        runs = pd.DataFrame(columns)

        def built(self, table, frame):
            assert (table, len(frame)) == ("cost", 1)
            rows = [
                {"dataset": "cora", "method": method, "deletions": count, "seconds": value, "ratio": value}
                for method, values in times.items()
                for count, value in zip((1, 11), values, strict=True)
            ]
            return [{"dataset": "cora", "method": "sisa", "serial_seconds": 1.0}, *rows]

    assert runs.cost(Known()) == [
        "| time relative to Retrain | 1 deletion | 11 | Retrain is as fast from |",
        "|---|---|---|---|",
        "| Cora, sisa | 0.50 | 1.50 | 6 |",
        "| Cora, graphrevoker | 2.00 | 3.00 | never faster |",
        "| Cora, tally | 0.10 | 0.10 | never |",
    ]
