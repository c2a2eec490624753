"""The report page as text: the numbers of the tables, nothing that could run or load, colours that can be read."""

from __future__ import annotations

import base64
import hashlib
import html
import itertools
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from page_samples import HOSTILE, METHODS, R, audited, grid_of_parts, sample_audits, sample_page, sample_records, spread
from record_samples import make_record

from unlearnbench.errors import UsageError
from unlearnbench.records.store import Store
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.report.figures.colours import HEAT, contrast
from unlearnbench.report.figures.series import Heat
from unlearnbench.report.frame.aggregate import aggregate
from unlearnbench.report.frame.commands import DEFAULTS, KNOWN_SIZES, run_command
from unlearnbench.report.frame.frame import frame_of, load_records
from unlearnbench.report.frame.record_groups import group_records
from unlearnbench.report.page import page_text, write, write_page
from unlearnbench.report.page.content import PageSource, build_content
from unlearnbench.report.tables.audits import audit_frame_of
from unlearnbench.report.tables.columns import SUMMARY
from unlearnbench.task import Training


@pytest.fixture(scope="module")
def page() -> str:
    pytest.importorskip("jinja2")
    return sample_page()


def drawn(text: str) -> dict[str, Any]:
    """Read the data of a page."""
    found = re.search(r'<script type="application/json" id="drawn">(.*?)</script>', text, re.DOTALL)
    assert found
    return dict(json.loads(found[1]))


def rows_of(text: str) -> dict[tuple[str, str], dict[str, dict[str, Any]]]:
    """Map dataset and model, with the first request, to their rows by name, cells by the name of their column."""
    found: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for place in drawn(text)["places"]:
        rows = {}
        for row in place["rows"]:
            cells = dict(zip((head["name"] for head in place["heads"]), row["cells"], strict=True))
            rows[row["row"]] = {**row, "cells": cells}
        found.setdefault((place["dataset"], place["model"]), rows)
    return found


def attributes_of(text: str) -> list[tuple[str, str]]:
    """List every attribute of every tag, as a browser reads them."""
    found: list[tuple[str, str]] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            found.extend((name, value or "") for name, value in attrs)

    Reader().feed(text)
    return found


def test_every_number_is_that_of_the_tables(page: str) -> None:
    shown = re.sub(r"<[^>]*>", "", page)
    groups = [aggregate(group) for group in group_records(frame_of(sample_records()))]
    for found, place in zip(groups, drawn(page)["places"], strict=True):
        summary = SUMMARY.build("summary", found)
        titles = {
            "f1-full": "F1 full %",
            "f1-shard": "F1 shard %",
            "seconds": "unlearn s",
            "hit": "shards hit",
            "n": "n",
        }
        for at, row in enumerate(place["rows"]):
            cells = dict(zip((head["name"] for head in place["heads"]), row["cells"], strict=True))
            for name, title in titles.items():
                _, text, small, *_ = cells[name]
                assert " ".join(filter(None, (text, small))) == summary.shown.iloc[at][title]
            assert cells["f1-full"][1] in shown
    assert "±" in shown


def test_accuracy_cost_and_forgetting_stand_in_one_row(page: str) -> None:
    row = rows_of(page)["cora", "gcn"]["sisa"]
    assert (row["kind"], row["forgets"], row["verdict"]) == ("method", "yes", "exact-given-partition")
    assert row["cells"]["ratio"][:3] == [0.5, "0.50", "0.500 s"]
    assert set(row["commands"]) == {"", "exactness"}
    assert row["commands"][""].startswith(
        "unlearnbench run --methods sisa --datasets cora --models gcn --repetitions 5"
    )
    text = page.split('<tr class="method" data-at="')[1]
    assert '<span class="pill yes" title="shown to forget">' in page
    assert "F1 full %" in text
    # Audits that nobody ran here have no column, and what was not audited says so.
    names = {head["name"] for head in drawn(page)["places"][0]["heads"]}
    assert "relearning" not in names
    assert rows_of(page)["cora", "gcn"]["gif"]["forgets"] == "unknown"
    assert "not audited</span>" in page


def test_a_method_that_was_not_shown_to_forget_says_so() -> None:
    audits = [audited("exactness", "gif", "approximate"), audited("exactness", "sisa", "exact")]
    records = [*spread("retrain", 0.9, 1.0), *spread("gif", 0.88, 0.5), *spread("sisa", 0.7, 0.5)]
    text = page_text(frame_of(records), audit_frame_of(audits), PageSource())
    rows = rows_of(text)["cora", "gcn"]
    assert {name: row["forgets"] for name, row in rows.items()} == {"retrain": "unknown", "gif": "no", "sisa": "yes"}
    assert '<span class="pill no" title="not shown to forget">approximate</span>' in text


def test_audits_that_do_not_decide_give_no_verdict() -> None:
    score = {
        "measure": "tpr",
        "where": "node, 1% false alarms",
        "value": 0.19,
        "low": 0.18,
        "high": 0.2,
        "state": "valid",
    }
    audits = audit_frame_of([audited("membership", "gif", "", [score])])
    text = page_text(frame_of([*spread("retrain", 0.9, 1.0), *spread("gif", 0.88, 0.5)]), audits, PageSource())
    row = rows_of(text)["cora", "gcn"]["gif"]
    assert row["forgets"] == "unknown"
    assert row["cells"]["membership_tpr"][3] == "95 % interval 0.180 to 0.200; n = 1"
    assert '<span class="pill unknown" title="audits ran, but none that decides">no verdict</span>' in text


def test_variants_are_told_from_defaults(page: str) -> None:
    rows = rows_of(page)["cora", "gcn"]
    assert {row["label"] for row in rows.values() if row["default"]} == {"retrain", "sisa", "gif", "stranger", "scrub"}
    # A folder of variants alone shows all of them.
    only = page_text(frame_of([make_record(), *grid_of_parts()]), None, PageSource())
    assert all(row["default"] for row in rows_of(only)["cora", "gcn"].values())


def test_busy_machines_are_marked_as_in_the_tables(page: str) -> None:
    assert rows_of(page)["cora", "gat"]["sisa"]["cells"]["ratio"][1].endswith("*")


def test_times_of_another_machine_are_relative_to_retrain_there() -> None:
    there = [
        make_record(name, r, machine="m-0002", seconds=s)
        for r in range(2)
        for name, s in (("retrain", 4.0), ("late", 1.0))
    ]
    rows = rows_of(page_text(frame_of([*spread("retrain", 0.8, 1.0), *there]), None, PageSource()))["cora", "gcn"]
    value, text, small, said, _ = rows["late"]["cells"]["ratio"]
    assert (value, text, small) == (0.25, "0.25", "1.000 s")
    assert "m-0002" in said


def test_what_failed_has_no_number_and_says_so(page: str) -> None:
    row = rows_of(page)["cora", "gcn"]["scrub"]
    assert (row["bad"], row["note"]) == (f"failed {R}", f"0 of {R} repetitions")
    assert [cell[0] for name, cell in row["cells"].items() if name != "n"] == [None] * (len(row["cells"]) - 1)
    columns = drawn(page)["columns"]
    records = [dict(zip(columns, one, strict=True)) for one in row["sources"]]
    assert [one["status"] for one in records] == ["error: ValueError"] * R
    assert {(one["shard"], one["full"], one["score"], one["time"]) for one in records} == {(None, None, 0, 0)}
    assert all(one["path"].endswith(".error.json") for one in records)
    assert f'<small class="bad">failed {R}</small>' in page


def test_repetitions_that_nobody_asked_for_are_no_alarm() -> None:
    text = page_text(frame_of([*spread("sisa", 0.8, 1.0), make_record("gif")]), None, PageSource())
    row = rows_of(text)["cora", "gcn"]["gif"]
    assert (row["bad"], row["note"], row["complete"]) == ("", f"1 of {R} repetitions", False)
    assert 'class="bad"' not in text.split("<main>")[1]


def test_each_number_leads_to_the_records_it_is_made_of(page: str) -> None:
    row = rows_of(page)["cora", "gcn"]["sisa"]
    columns = drawn(page)["columns"]
    records = [dict(zip(columns, one, strict=True)) for one in row["sources"]]
    assert [one["repetition"] for one in records] == list(range(R))
    mean = sum(one["shard"] for one in records if one["score"]) / R
    assert row["cells"]["f1-shard"][0] == pytest.approx(mean) == pytest.approx(METHODS["sisa"][0])


def test_a_record_of_another_machine_is_listed_but_not_counted() -> None:
    there = make_record("sisa", 0, machine="m-0002", shard=0.5, seconds=9.0)
    content = build_content(frame_of([*spread("sisa", 0.78, 0.5), there]), None, PageSource())
    (row,) = content["places"][0]["rows"]
    columns = content["drawn"]["columns"]
    listed = [dict(zip(columns, one, strict=True)) for one in row["sources"]]
    assert [(one["path"].split("/")[1], one["score"], one["time"]) for one in listed if one["repetition"] == 0] == [
        ("m-0001", 1, 1),
        ("m-0002", 0, 0),
    ]


def test_labels_cannot_run(page: str) -> None:
    assert HOSTILE not in page
    assert "onerror='" not in page
    # One script for the data and one that runs: the sample's own would be a third.
    assert len(re.findall(r"<script", page, re.IGNORECASE)) == 2
    assert len(re.findall(r"</script", page, re.IGNORECASE)) == 2
    assert "<img" not in page
    assert HOSTILE in {place["dataset"] for place in drawn(page)["places"]}


def test_nothing_else_may_run_or_load(page: str) -> None:
    policy = re.search(r'Content-Security-Policy" content="(.*?)"', page)
    assert policy
    assert "default-src 'none'" in policy[1]
    assert "unsafe" not in policy[1]
    for tag in ("style", "script"):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in html.unescape(policy[1])
    attributes = attributes_of(page)
    assert {name for name, _ in attributes} & {"src", "srcset", "action", "style", "onclick", "onerror"} == set()
    assert {value.partition(":")[0] for name, value in attributes if name == "href" and value[0] != "#"} == {"data"}
    script, style = write._script(), write._style()
    assert not re.findall(r"fetch\(|XMLHttpRequest|import\(|WebSocket|sendBeacon", script)
    assert not re.findall(r"url\(|@import", style)
    assert set(re.findall(r"https?://[^\"'\s<]*", page)) == {"http://www.w3.org/2000/svg"}


def test_the_same_records_give_the_same_page(page: str) -> None:
    records = sample_records()[::-1]
    again = page_text(frame_of(records), audit_frame_of(sample_audits()[::-1]), PageSource("results", None))
    assert again == page


def test_a_page_of_thousands_of_records_stays_small() -> None:
    def size(repetitions: int) -> int:
        records = [make_record(f"method-{m}", r) for m in range(4) for r in range(repetitions)]
        return len(page_text(frame_of(records), None, PageSource()))

    few, many = size(5), size(30)
    # 2,000 records of a quarter of a kilobyte each leave five sixths of 3 MB for everything else.
    assert (many - few) / 100 < 250
    assert few < 100_000


def test_audits_stand_with_their_gate(page: str) -> None:
    section = page.split('id="audits-title"')[1].split("</section>")[0]
    assert "✓ js: valid" in section
    assert "✗ posterior-shift: cannot tell (It fails)" in section
    for text in ("as retrained", "exact-given-partition (ids)", "Scores: Audit distance"):
        assert text in section
    ungated = page_text(frame_of(sample_records()), audit_frame_of(sample_audits()[1:2]), PageSource())
    assert "No gate: the audit <code>controls</code> was not run here" in ungated


def test_of_an_audit_the_page_shows_the_latest_version_alone() -> None:
    later = audited("distance", "sisa", "differs", version=2)
    both = audit_frame_of([*sample_audits(), later.model_copy(update={"key": "ab" * 8})])
    section = page_text(frame_of(sample_records()), both, PageSource()).split('id="audits-title"')[1]
    section = section.split("</section>")[0]
    assert "differs" in section
    assert "as retrained" not in section
    assert "{version=" not in section


def test_what_is_absent_says_what_makes_it() -> None:
    text = page_text(frame_of([make_record("sisa")]), None, PageSource())
    for command in ("run --experiment factorial", "run --experiment cost", "audit all"):
        assert f"<code>unlearnbench {command}</code>" in text


def test_the_matrix_of_parts_is_that_of_the_table(page: str) -> None:
    heat = page.split('<table class="heat v-shard">')[1].split("</table>")[0]
    cells = re.findall(r'<td class="heat-(\d)">(.*?)</td>', heat)
    assert [(step, re.sub("<.*?>", "", text).split(" ")[0]) for step, text in cells] == [
        ("0", "60.00"),
        ("3", "65.00"),
        ("5", "70.00"),
        ("8", "75.00"),
    ]


def test_one_pair_that_fails_does_not_make_all_others_look_alike() -> None:
    scores = {("full", f"p{at}", "mean"): score for at, score in enumerate((0.2, 0.80, 0.82, 0.84, 0.86))}
    found = Heat(None, None, (), (), scores)  # type: ignore[arg-type]
    # Quartiles .80 and .84: the fence is .80 - 1.5 * .04.
    assert found.limits("full") == (pytest.approx(0.74), 0.86)
    assert [found.step("full", f"p{at}", "mean") for at in range(5)] == [0, 4, 5, 7, 8]
    assert found.limits("shard") == (0.0, 0.0)


def test_the_command_of_a_row_says_what_differs_from_the_defaults() -> None:
    facets = {
        "dataset_config": '{"name":"cora","params":{},"version":1}',
        "model_config": '{"name":"gat","params":{"dropout":0.5,"heads":8,"hidden":32},"version":1}',
        "protocol_config": '{"forget":{"kind":"edge","count":3},"name":"www24","setting":"transductive","version":1}',
        "training_config": '{"epochs":50,"lr":0.01,"one_by_one":true,"weight_decay":0.0005}',
    }
    assert run_command(facets, "sisa[partitioner=hash]", [(0, 2), (0, 4)]) == (
        "unlearnbench run --methods 'sisa[partitioner=hash]' --datasets cora --models 'gat[hidden=32]' --seeds 2,4"
        " --setting transductive --forget-kind edge --forget-count 3 --epochs 50 --train one-by-one --out runs/again"
    )
    tuned = {
        **facets,
        "protocol_config": '{"forget":{"kind":"node","ratio":0.05},"name":"tuned","version":1}',
        "training_config": '{"recipe":"tuned for each method"}',
    }
    labels = "bad-teacher[lr=0.00012,share=0.98],smoothed[method=sisa[partitioner=hash],share=0.51],sisa"
    # Without values, which the protocol brings.
    assert run_command(tuned, labels, [(0, 0)], out="") == (
        "unlearnbench run --methods 'bad-teacher,smoothed[method=sisa[partitioner=hash]],sisa' --datasets cora"
        " --models 'gat[hidden=32]' --repetitions 1 --protocol tuned --forget-ratio 0.05"
    )
    named = {**facets, "protocol_config": '{"forget":{"kind":"node","ids":[1,2]},"name":"www24"}'}
    assert run_command(named, "sisa", [(0, 0)]) == ""


def test_the_defaults_that_commands_leave_out_are_those_of_the_package() -> None:
    catalogue = load_catalogue()
    for name in ("gcn", "gat", "sgc", "jknet", "appnp", "sage"):
        params = resolve(catalogue, "model", name).canonical()["params"]
        known = {**DEFAULTS, **KNOWN_SIZES.get(name, {})}
        assert {key: known[key] for key in params} == params
    for name, value in Training().canonical().items():
        assert DEFAULTS[name] == value


def test_records_are_linked_where_page_and_records_lie_together(tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    records = [make_record("sisa"), make_record("Odd name%/"), make_record("sisa", 1, status="oom")]
    store = Store(tmp_path / "results", "m-0001")
    paths = [store.save_failure(one) if one.is_failure else store.save(one) for one in records]
    frame = load_records(tmp_path / "results")
    for folder in ("results/page", "results", "."):
        written = write_page(tmp_path / "results", frame, None, tmp_path / folder)
        data = drawn(written.read_text("utf-8"))
        named = [
            written.parent / unquote(data["base"] + one[0])
            for place in data["places"]
            for row in place["rows"]
            for one in row["sources"]
        ]
        assert sorted(path.resolve() for path in named) == sorted(path.resolve() for path in paths)
    # Elsewhere a way would name folders that are nobody's business.
    away = write_page(tmp_path / "results", frame, None, tmp_path / "elsewhere")
    assert drawn(away.read_text("utf-8"))["base"] is None


def test_a_page_that_cannot_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="no folder"):
        write.check_page(tmp_path / "file")
    monkeypatch.setitem(__import__("sys").modules, "jinja2", None)
    with pytest.raises(UsageError, match="jinja2") as caught:
        write.check_page(tmp_path)
    assert 'pip install "unlearnbench[report]"' in caught.value.hint


# --- colours


def themes() -> dict[str, dict[str, str]]:
    """Read the variables of both themes from the style."""
    style = write._read("page.css")
    light, dark = re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    found = [dict(re.findall(r"--(\w+): (#[0-9a-f]{6});", text)) for text in (light, dark)]
    return {"light": found[0], "dark": found[1]}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_has_enough_contrast(theme: str) -> None:
    colours = themes()[theme]
    channels = [[int(colours[name][at : at + 2], 16) for at in (1, 3, 5)] for name in ("link", "paper")]
    tint = "#" + "".join(f"{round(0.27 * a + 0.73 * b):02x}" for a, b in zip(*channels, strict=True))
    assert contrast(colours["ink"], tint) >= 4.5
    texts = ("ink", "soft", "link", "good", "bad", "warn")
    assert set(colours) == {*texts, "paper", "panel", "line"}
    for text, ground in itertools.product(texts, ("paper", "panel")):
        assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)


def test_all_text_takes_its_colour_from_the_theme() -> None:
    style = write._read("page.css")
    # A tint is little of the accent on paper: the darkest is looked at below.
    tints = [int(share) for share in re.findall(r"color-mix\(in srgb, var\(--link\) (\d+)%, var\(--paper\)\)", style)]
    assert max(tints) < 30
    style = re.sub(r"color-mix\([^;]*\)\)", "var(--paper)", style)
    used = set(re.findall(r"[{;\s](?:color|fill|background): ([^;]+);", style))
    assert used == {
        "none",
        *(f"var(--{name})" for name in ["paper", "panel", "ink", "soft", "link", "good", "bad", "warn"]),
    }
    grounds = set(re.findall(r"\sbackground: ([^;]+);", style))
    assert grounds == {"var(--paper)", "var(--panel)", "none"}
    # Text over the heat map: its steps are the same in both themes.
    steps = re.findall(r"\.heat-\d \{ background: (#\w{6}); color: (#\w{6}); \}", write._style())
    assert [ground for ground, _ in steps] == list(HEAT)
    assert all(contrast(ground, ink) >= 4.5 for ground, ink in steps)


def test_contrast_by_hand() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    # 0x77 is 119/255: ((0.4667 + 0.055)/1.055)^2.4 = 0.1845.
    assert contrast("#ffffff", "#777777") == pytest.approx(1.05 / (0.1845 + 0.05), abs=2e-3)
