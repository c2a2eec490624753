"""The report page in a real browser without a window: sorting, filters, keys, widths, and what it asks for."""

from __future__ import annotations

import csv
import json
import os
import shutil
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from page_samples import HOSTILE, LONG, R, grid_of_parts, sample_page, sample_records
from scipy.stats import t as student

from unlearnbench.report.frame.aggregate import aggregate
from unlearnbench.report.frame.frame import frame_of
from unlearnbench.report.frame.record_groups import group_records, narrowed
from unlearnbench.report.page import page_text
from unlearnbench.report.page.content import PageSource
from unlearnbench.report.tables.comparison import compare
from unlearnbench.statistics import corrected_paired_t, holm, mean_ranks
from unlearnbench.statistics.ranks import NEMENYI

pytest.importorskip("jinja2", reason="the page needs jinja2: pip install 'unlearnbench[report]'")
webdriver = pytest.importorskip(
    "selenium.webdriver", reason="the page is tested in a browser through selenium: pip install 'unlearnbench[dev]'"
)
WebDriverWait = pytest.importorskip("selenium.webdriver.support.ui").WebDriverWait
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (CHROMIUM and DRIVER),
        reason="no chromium with its driver here: apt-get install chromium chromium-driver (Debian)",
    ),
]
FOCUSABLE = "a[href], button, select, input, summary, [tabindex='0']"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    settings = webdriver.ChromeOptions()
    settings.binary_location = str(CHROMIUM)
    profile = tmp_path_factory.mktemp("profile")
    for argument in ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={profile}"):
        settings.add_argument(argument)
    if os.geteuid() == 0:
        settings.add_argument("--no-sandbox")
    settings.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=settings, service=webdriver.ChromeService(executable_path=DRIVER))
    driver.set_page_load_timeout(120)
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("page") / "index.html"
    path.write_text(sample_page("../"), "utf-8")
    return path.as_uri()


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    """Open the page anew, and look at the end whether it complained or asked for anything."""
    size(browser, 1280)
    browser.get("about:blank")
    browser.get_log("browser")
    browser.get_log("performance")
    browser.get(address)
    yield browser
    assert browser.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = {
        event["params"]["request"]["url"].partition("#")[0]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    }
    assert asked <= {address, "data:,"}


def size(browser: Any, width: int, theme: str = "light") -> None:
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", features)


def choose(page: Any, control: str, value: str) -> None:
    """Choose in a list as a person does: the page hears of it."""
    page.execute_script(
        "const it = document.getElementById(arguments[0]); it.value = arguments[1];"
        "if (it.value !== arguments[1]) throw new Error('no such choice');"
        "it.dispatchEvent(new Event('change', { bubbles: true }));",
        control,
        value,
    )


def rows(page: Any) -> list[dict[str, Any]]:
    """Read the visible rows of the leaderboard in their order."""
    found: list[dict[str, Any]] = page.execute_script(
        "return [...document.querySelectorAll('.board > tbody > tr:not(.detail-row)')]"
        ".filter((row) => row.getClientRects().length).map((row) => ({ ...row.dataset, kind: row.classList[0],"
        " rank: row.querySelector('.rank').textContent, method: row.querySelector('th span').textContent.trim(),"
        " cells: Object.fromEntries([...row.querySelectorAll('td.number')].map((cell) =>"
        " [cell.dataset.label, cell.textContent.trim()])),"
        " classes: Object.fromEntries([...row.querySelectorAll('td.number')].map((cell) =>"
        " [cell.dataset.label, cell.className])),"
        " titles: Object.fromEntries([...row.querySelectorAll('td.number')].map((cell) =>"
        " [cell.dataset.label, cell.title])) }))"
    )
    return found


def methods(page: Any) -> list[str]:
    """List the names of visible rows that are methods."""
    return [row["method"] for row in rows(page) if row["kind"] == "method"]


def click_cell(page: Any, method: str, label: str) -> None:
    """Click a number."""
    page.execute_script(
        "const row = [...document.querySelectorAll('.board > tbody > tr')].find((one) => one.getClientRects().length &&"
        " one.querySelector('th span')?.textContent.trim() === arguments[0]);"
        "[...row.querySelectorAll('td.number')].find((one) => one.dataset.label === arguments[1])"
        ".querySelector('button').click();",
        method,
        label,
    )


def listed(page: Any) -> list[Any]:
    """Return the records that are open."""
    return list(page.find_elements("css selector", ".detail-row .records tbody tr"))


def visible(page: Any, selector: str) -> int:
    return int(
        page.execute_script(
            "return [...document.querySelectorAll(arguments[0])].filter((one) => one.getClientRects().length).length",
            selector,
        )
    )


def test_ranks_put_those_first_that_were_shown_to_forget(page: Any) -> None:
    found = rows(page)
    # gif and stranger are better or worse by F1, but nobody audited them; scrub failed and has no rank.
    assert [(row["rank"], row["method"]) for row in found] == [
        ("", "retrain"),
        ("1", "sisa"),
        ("2", "gif"),
        ("3", "stranger"),
        ("", "scrub"),
    ]
    assert found[0]["kind"] == "reference"


def test_marks_and_p_values_are_those_of_the_rows_shown(page: Any) -> None:
    by_name = {row["method"]: row for row in rows(page)}
    assert "best" in by_name["gif"]["classes"]["F1 shard %"]
    assert by_name["gif"]["titles"]["F1 shard %"] == "The best of the methods shown; it is not audited here."
    (group,) = [
        one
        for one in group_records(frame_of(sample_records()))
        if one.name.startswith("cora, gcn on cpu, forgetting 0.5")
    ]
    shown = narrowed(group, ["retrain", "sisa", "gif", "stranger", "scrub"])
    family = compare(aggregate(shown), "shard", 1 / 7)
    for name in ("sisa", "stranger"):
        test, p = family.to_best[name], family.adjusted[name]
        assert (test.mean, test.low, test.high, p) != (None,) * 4
        title = by_name[name]["titles"]["F1 shard %"].replace("\N{MINUS SIGN}", "-")
        mean, low, high = (f"{100 * value:.2f}" for value in (test.mean, test.low, test.high))
        assert title.startswith(f"{mean} points to the best, gif (95 % interval {low} to {high})")
        assert title.endswith("after Holm over 2 methods.")
    # With fewer rows the family is smaller.
    page.find_element("id", "search").send_keys("s")
    WebDriverWait(page, 30).until(lambda one: "gif" not in methods(one))
    best = [row["method"] for row in rows(page) if "best" in row["classes"]["F1 shard %"]]
    assert best == ["sisa"]
    assert rows(page)[0]["method"] == "retrain"


def test_student_holm_and_ranks_are_those_of_the_statistics(page: Any, browser: Any) -> None:
    source = (files("unlearnbench.report.page") / "stats.js").read_text("utf-8")
    run = f"const drawn = arguments[0]; {source}; return "
    ts = [(0.3, 1), (2.2, 2), (4.6, 9), (12.7, 1), (1.1, 14)]
    found = page.execute_script(f"{run}arguments[1].map(([t, n]) => studentP(t, n))", {"nemenyi": NEMENYI}, ts)
    assert found == pytest.approx([2 * student.sf(t, n) for t, n in ts])
    assert page.execute_script(f"{run}studentLimit(9)", {}) == pytest.approx(student.ppf(0.975, 9))
    ps = [0.04, 0.2, 0.001, 0.03]
    assert page.execute_script(f"{run}holm(arguments[1])", {}, ps) == pytest.approx(holm(ps))
    differences = [-0.01, 0.02, 0.015, 0.04, -0.002]
    mine, ours = (
        page.execute_script(f"{run}paired(arguments[1], 1/7)", {}, differences),
        corrected_paired_t(differences, 1 / 7),
    )
    assert [mine[name] for name in ("mean", "low", "high", "p")] == pytest.approx(
        [ours.mean, ours.low, ours.high, ours.p]
    )
    scores = [[0.5, 0.5, 0.9], [0.1, 0.3, 0.2]]
    ranks = page.execute_script(f"{run}arguments[1].map(ranksOf)", {}, scores)
    expected = mean_ranks(scores)
    assert [sum(one) / 2 for one in zip(*ranks, strict=True)] == pytest.approx(expected.ranks)
    difference = page.execute_script(f"{run}criticalDifference(3, 2)", {"nemenyi": NEMENYI})
    assert difference == pytest.approx(expected.critical_difference)


def test_a_click_on_a_head_sorts_and_another_turns_it_round(page: Any) -> None:
    head = page.find_element("css selector", ".place:not([hidden]) th[data-head='ratio'] button")
    head.click()
    first = [row for row in rows(page) if row["kind"] == "method"]
    # What failed has no time and stands last, whichever way the rest goes; Retrain stays above.
    assert [row["method"] for row in first] == ["stranger", "sisa", "gif", "scrub"]
    assert head.find_element("xpath", "..").get_attribute("aria-sort") == "ascending"
    head.click()
    assert methods(page) == ["gif", "sisa", "stranger", "scrub"]
    assert rows(page)[0]["method"] == "retrain"
    choose(page, "sort-by", "method")
    assert methods(page) == ["gif", "scrub", "sisa", "stranger"]


def test_filters_leave_what_they_name(page: Any) -> None:
    choose(page, "filter-model", "gat")
    assert [row["method"] for row in rows(page)] == ["retrain", "sisa"]
    assert page.find_element("id", "count").text == "2 of 2 rows"
    choose(page, "filter-model", "gcn")
    page.find_element("id", "defaults").click()
    assert len(methods(page)) == 8
    page.find_element("id", "defaults").click()
    page.find_element("css selector", "#time .legend button[data-method='gif']").click()
    assert "gif" not in methods(page)
    page.find_element("css selector", "#families button").click()
    assert methods(page) == []
    assert "No method matches" in page.find_element("id", "count").text
    page.find_element("id", "reset").click()
    assert "gif" in methods(page)
    # A dataset without the request that was chosen gives one that it has.
    choose(page, "filter-dataset", "digits")
    assert {row["method"] for row in rows(page)} == {"retrain", "sisa"}
    assert visible(page, "#cost svg[role]") == 1


def test_a_view_shows_its_columns_and_figures_alone(page: Any) -> None:
    parts = (".board th.v-shard", ".board th.v-full", "#time svg[role]")
    assert [visible(page, part) for part in parts] == [1, 1, 2]
    choose(page, "filter-view", "full")
    assert [visible(page, part) for part in parts] == [0, 1, 1]
    assert visible(page, "table.heat.v-shard") == 0
    assert visible(page, "table.heat.v-full") == 1
    page.find_element("id", "more").click()
    assert visible(page, ".board th.k-more") == 4


def test_a_number_opens_its_records_below_it_and_the_address_keeps_the_view(page: Any, address: str) -> None:
    click_cell(page, "sisa", "F1 shard %")
    records = listed(page)
    assert [one.find_element("css selector", "td").text for one in records] == ["yes"] * R
    link = records[0].find_element("css selector", "td:last-child a").get_attribute("href")
    assert link.startswith(address.rpartition("/")[0].rpartition("/")[0] + "/records/m-0001/cora/sisa/")
    detail = page.find_element("css selector", ".detail-row")
    assert detail.find_element("css selector", "h3").text.startswith("sisa: F1 shard % ")
    assert detail.find_element("css selector", ".command code").text.startswith("unlearnbench run --methods sisa")
    above = page.execute_script("return document.querySelector('.detail-row').previousElementSibling.textContent")
    assert "sisa" in above
    choose(page, "sort-by", "f1-full")
    click_cell(page, "sisa", "F1 full %")
    kept, order = page.current_url, methods(page)
    page.get("about:blank")
    page.get(kept)
    assert methods(page) == order
    assert page.find_element("css selector", ".detail-row h3").text.startswith("sisa: F1 full % ")
    click_cell(page, "sisa", "F1 full %")
    assert listed(page) == []


def test_failed_records_are_listed_as_failed(page: Any) -> None:
    page.find_element("id", "more").click()
    click_cell(page, "scrub", "n")
    records = listed(page)
    assert [one.find_element("css selector", "td.bad").text for one in records] == ["error: ValueError"] * R
    assert [one.find_element("css selector", "td").text for one in records] == ["no"] * R


def test_the_view_is_saved_as_csv_and_latex(page: Any, tmp_path: Path) -> None:
    page.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    for button, ending in (("csv", "csv"), ("latex", "tex"), ("matrix-csv", "csv")):
        before = set(tmp_path.glob(f"*.{ending}"))
        page.find_element("id", button).click()
        WebDriverWait(page, 30).until(lambda _, e=ending, b=before: set(tmp_path.glob(f"*.{e}")) - b)
    (table,) = tmp_path.glob("leaderboard-*.csv")
    lines = list(csv.DictReader(table.read_text("utf-8").splitlines()))
    assert [(line["rank"], line["method"]) for line in lines][:3] == [("", "retrain"), ("1", "sisa"), ("2", "gif")]
    assert float(lines[1]["f1-shard"]) == pytest.approx(0.78)
    (latex,) = tmp_path.glob("*.tex")
    assert "\\textbf{84.00 $\\pm$ 1.58}" in latex.read_text("utf-8")
    assert "\\toprule" in latex.read_text("utf-8")


def test_all_graphs_are_ranked_and_the_diagram_says_so(page: Any) -> None:
    heads = {one.text: one for one in page.find_elements("css selector", ".matrix thead button")}
    assert set(heads) == {HOSTILE, "gat", "gcn"}
    heads["gat"].click()
    assert [row["method"] for row in rows(page)] == ["retrain", "sisa"]


def test_labels_do_not_run(page: Any) -> None:
    choose(page, "filter-dataset", HOSTILE)
    assert methods(page) == [HOSTILE]
    click_cell(page, HOSTILE, "F1 full %")
    assert HOSTILE in page.find_element("css selector", ".detail-row h3").text
    assert HOSTILE in page.find_element("css selector", "#time figcaption").text
    assert page.execute_script("return window.pwned") is None
    assert page.find_elements("css selector", "img") == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 320])
def test_nothing_is_wider_than_a_telephone(page: Any, width: int, theme: str) -> None:
    size(page, width, theme)
    page.refresh()
    page.execute_script("for (const one of document.querySelectorAll('details:not(.menu)')) one.open = true;")
    click_cell(page, "sisa", "F1 full %")
    assert listed(page)
    assert page.execute_script("return document.documentElement.scrollWidth") == width
    background = page.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert background == {"light": "rgb(255, 255, 255)", "dark": "rgb(15, 18, 25)"}[theme]


@pytest.mark.parametrize("width", [1280, 390])
def test_many_rows_with_long_names_stay_in_the_page_and_are_folded(browser: Any, tmp_path: Path, width: int) -> None:
    path = tmp_path / "index.html"
    path.write_text(page_text(frame_of(grid_of_parts(LONG)), None, PageSource()), "utf-8")
    size(browser, width)
    browser.get(path.as_uri())
    inner = browser.execute_script("return document.documentElement.clientWidth")
    assert browser.execute_script("return document.documentElement.scrollWidth") == inner
    # Four rows of one method are one line of the legend.
    assert browser.find_element("css selector", "#time .legend").text == "sharded, 4 rows"
    assert LONG in browser.find_element("css selector", ".board").text.replace("\n", "")
    right = browser.execute_script(
        "return Math.max(...[...document.querySelectorAll('#phases text, .heat')].map((one) => "
        "one.getBoundingClientRect().right))"
    )
    assert right <= width
    boxes = browser.execute_script(
        "return [...document.querySelectorAll('.heat')].map((one) => { const at = one.getBoundingClientRect();"
        " return [at.top, at.bottom]; })"
    )
    assert boxes[0][1] <= boxes[1][0]


def test_every_control_is_reached_by_tab(page: Any) -> None:
    wanted = page.execute_script(
        "return [...document.querySelectorAll(arguments[0])].filter((one) => one.checkVisibility()).map("
        "(one, at) => { one.dataset.stop = at; return at; })",
        FOCUSABLE,
    )
    page.execute_script(
        "window.stops = [];"
        "document.addEventListener('focusin', (event) => window.stops.push(Number(event.target.dataset.stop ?? -1)));"
    )
    page.find_element("css selector", "body").send_keys("\ue004" * len(wanted))
    reached = page.execute_script("return window.stops")
    assert reached == wanted
    head = page.find_element("css selector", ".place:not([hidden]) th[data-head='ratio'] button")
    head.send_keys("\ue007")
    assert head.find_element("xpath", "..").get_attribute("aria-sort") == "ascending"


def test_figures_say_what_they_show(page: Any) -> None:
    said = page.execute_script(
        "return [...document.querySelectorAll('figure svg[role=img]')].map((one) => one.getAttribute('aria-labelledby')"
        ".split(' ').map((id) => document.getElementById(id).textContent))"
    )
    assert len(said) == 4
    titles = [title for title, _ in said]
    assert titles[0] == "cora, gcn on cpu, forgetting 0.5 % of nodes, view full"
    assert "gif: 87.00 % in 1.6 of Retrain's time, not audited here" in said[0][1]
    assert f"not drawn: scrub (failed {R})" in said[0][1]
    assert "sisa: 0.5 s" in said[3][1]
    # A drawing without words is not read out.
    assert visible(page, "svg:not([role=img]):not([aria-hidden=true])") == 0
