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
from page_samples import HOSTILE, METHODS, R, sample_audits, sample_page, sample_records, spread
from record_samples import make_record

from unlearnbench.errors import UsageError
from unlearnbench.records.store import Store
from unlearnbench.report.figures.colours import HEAT, contrast
from unlearnbench.report.frame.aggregate import aggregate
from unlearnbench.report.frame.frame import frame_of, load_records
from unlearnbench.report.frame.record_groups import group_records
from unlearnbench.report.page import page_text, write, write_page
from unlearnbench.report.page.content import PageSource, build_content
from unlearnbench.report.tables.audits import audit_frame_of
from unlearnbench.report.tables.columns import SUMMARY
from unlearnbench.report.tables.comparison import ComparisonTable


@pytest.fixture(autouse=True)
def no_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare half of the time: statsmodels collects garbage at every adjustment."""
    monkeypatch.setattr("gc.collect", lambda *_: 0)


@pytest.fixture(scope="module")
def page() -> str:
    pytest.importorskip("jinja2")
    return sample_page()


def drawn(text: str) -> dict[str, Any]:
    """Read the data of a page."""
    found = re.search(r'<script type="application/json" id="drawn">(.*?)</script>', text, re.DOTALL)
    assert found
    return dict(json.loads(found[1]))


def board(text: str) -> list[tuple[dict[str, str], str, list[str]]]:
    """Read the leaderboard: what a row is of, its method, its cells as people read them."""
    body = text.split('<table id="board">')[1].split("<tbody>")[1].split("</tbody>")[0]
    rows = []
    for row in body.split("<tr ")[1:]:
        places = {
            name: html.unescape(value) for name, value in re.findall(r'data-(dataset|model|protocol)="(.*?)"', row)
        }
        head, *cells = [
            " ".join(html.unescape(re.sub(r"<[^>]*>", "", cell)).split())
            for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)[3:]
        ]
        rows.append((places, head, cells))
    return rows


def attributes_of(text: str) -> list[tuple[str, str]]:
    """List every attribute of every tag, as a browser reads them."""
    found: list[tuple[str, str]] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            found.extend((name, value or "") for name, value in attrs)

    Reader().feed(text)
    return found


def test_every_number_is_that_of_the_tables(page: str) -> None:
    expected = []
    for group in group_records(frame_of(sample_records())):
        found = aggregate(group)
        summary, comparison = SUMMARY.build("summary", found).shown, ComparisonTable().build("comparison", found).shown
        for at, line in summary.iterrows():
            texts = [line["n"]]
            for view in ("shard", "full"):
                texts += [line[f"F1 {view} %"], comparison.loc[at, f"{view}: to best"]]
            texts += [line[name] for name in ("unlearn s", "relative to Retrain", "shards hit", "peak MiB")]
            row = [str(text) or "–" for text in texts] + [str(line.get("status", ""))]  # noqa: RUF001
            expected.append((group.facets["dataset"], group.facets["model"], line["method"], row))
    assert [(at["dataset"], at["model"], name, cells) for at, name, cells in board(page)] == expected
    assert any("±" in cell for _, _, _, row in expected for cell in row)


def test_marks_and_busy_machines_are_those_of_the_tables(page: str) -> None:
    cells = page.split('<table id="board">')[1].split("</table>")[0]
    bold = {html.unescape(text) for text in re.findall(r"<b>(.*?)</b>", cells)}
    marked = set()
    for group in group_records(frame_of(sample_records())):
        table = ComparisonTable().build("comparison", aggregate(group))
        marked |= {str(table.shown.loc[at, column]) for at, column in table.marked}
    assert bold == marked
    assert marked
    (busy,) = [row for at, name, row in board(page) if at["model"] == "gat" and name == "sisa"]
    assert busy[5].endswith("*")


def test_what_failed_has_no_number_and_says_so(page: str) -> None:
    at, row = next((i, row) for i, (_, name, row) in enumerate(board(page)) if name == "scrub")
    assert row == [f"0/{R}", *["–"] * 8, f"failed {R}"]  # noqa: RUF001
    data = drawn(page)
    assert data["values"][at][1:] == [None] * 8
    records = [dict(zip(data["columns"], one, strict=True)) for one in data["sources"][at]]
    assert [one["status"] for one in records] == ["error: ValueError"] * R
    assert {(one["shard"], one["full"], one["score"], one["time"]) for one in records} == {(None, None, 0, 0)}
    assert all(one["path"].endswith(".error.json") for one in records)
    (group,) = [one for one in data["groups"] if one["model"] == "gcn" and one["name"].startswith("cora")]
    assert group["lacking"]["shard"] == {"scrub": f"failed {R}"}
    assert "scrub" not in {one["name"] for one in group["points"]["shard"]}


def test_each_number_leads_to_the_records_it_is_made_of(page: str) -> None:
    data = drawn(page)
    at = next(i for i, (place, name, _) in enumerate(board(page)) if name == "sisa" and place["model"] == "gcn")
    links = re.findall(rf'href="#records={at}-(\d+)"', page)
    assert sorted({int(one) for one in links}) == [0, 1, 2, 3, 4, 5, 6, 8]
    records = [dict(zip(data["columns"], one, strict=True)) for one in data["sources"][at]]
    assert [one["repetition"] for one in records] == list(range(R))
    mean = sum(one["shard"] for one in records if one["score"]) / R
    assert data["values"][at][1] == pytest.approx(mean) == pytest.approx(METHODS["sisa"][0])


def test_a_record_of_another_machine_is_listed_but_not_counted() -> None:
    there = make_record("sisa", 0, machine="m-0002", shard=0.5, seconds=9.0)
    content = build_content(frame_of([*spread("sisa", 0.78, 0.5), there]), None, PageSource())
    (row,) = content["rows"]
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
    assert any(name == HOSTILE for _, name, _ in board(page)) or HOSTILE in {
        g["dataset"] for g in drawn(page)["groups"]
    }


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


def test_what_is_known_of_forgetting_stands_with_what_a_cell_says_and_its_records(page: str) -> None:
    section = page.split('id="forgetting-title"')[1].split("</section>")[0]
    assert '<table class="evidence">' in section
    assert re.search(r'<a href="#evidence=0-\d-0" title="the verdict of the audit exactness[^"]* \(n = 1\)">', section)
    rows = {row["method"]: row["cells"] for row in drawn(page)["evidence"][0]}
    exactness, *others = rows["sisa"]
    assert exactness["text"] == "exact-given-partition (ids)"
    assert len(exactness["records"]) == 1
    # No membership, no relearning, no leakage: nothing is written, and no number is there to sort by.
    assert [(cell["text"], cell["value"]) for cell in others[1:6]] == [("", None)] * 5
    assert rows["retrain"][-1]["value"] == 1


def test_what_is_absent_says_what_makes_it() -> None:
    text = page_text(frame_of([make_record("sisa")]), None, PageSource())
    for command in ("run --experiment factorial", "run --experiment cost", "audit all"):
        assert f"<code>unlearnbench {command}</code>" in text


def test_the_matrix_of_parts_is_that_of_the_table(page: str) -> None:
    heat = page.split('<table class="heat v-shard">')[1].split("</table>")[0]
    cells = re.findall(r'<td class="heat-(\d)">(.*?)</td>', heat)
    assert [(step, re.sub("<.*?>", "", text).split(" ")[0]) for step, text in cells] == [
        ("0", "60.00"),
        ("2", "65.00"),
        ("4", "70.00"),
        ("7", "75.00"),
    ]


def test_records_are_linked_where_page_and_records_lie_together(tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    records = [make_record("sisa"), make_record("Odd name%/"), make_record("sisa", 1, status="oom")]
    store = Store(tmp_path / "results", "m-0001")
    paths = [store.save_failure(one) if one.is_failure else store.save(one) for one in records]
    frame = load_records(tmp_path / "results")
    for folder in ("results/page", "results", "."):
        written = write_page(tmp_path / "results", frame, None, tmp_path / folder)
        data = drawn(written.read_text("utf-8"))
        named = [written.parent / unquote(data["base"] + one[0]) for row in data["sources"] for one in row]
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
    texts = ("ink", "soft", "link", "good", "bad", "warn")
    assert set(colours) == {*texts, "paper", "panel", "line"}
    for text, ground in itertools.product(texts, ("paper", "panel")):
        assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)


def test_all_text_takes_its_colour_from_the_theme() -> None:
    style = write._read("page.css")
    used = set(re.findall(r"[{;\s](?:color|fill|background): ([^;]+);", style))
    assert used == {
        "inherit",
        "none",
        *(f"var(--{name})" for name in ["paper", "panel", "ink", "soft", "link", "good", "bad", "warn"]),
    }
    grounds = set(re.findall(r"\sbackground: ([^;]+);", style))
    assert grounds == {"var(--paper)", "var(--panel)"}
    # Text over the heat map: its steps are the same in both themes.
    steps = re.findall(r"\.heat-\d \{ background: (#\w{6}); color: (#\w{6}); \}", write._style())
    assert [ground for ground, _ in steps] == list(HEAT)
    assert all(contrast(ground, ink) >= 4.5 for ground, ink in steps)


def test_contrast_by_hand() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    # 0x77 is 119/255: ((0.4667 + 0.055)/1.055)^2.4 = 0.1845.
    assert contrast("#ffffff", "#777777") == pytest.approx(1.05 / (0.1845 + 0.05), abs=2e-3)
