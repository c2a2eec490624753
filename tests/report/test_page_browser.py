"""The report page in a real browser without a window: sorting, filters, keys, widths, and what it asks for."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from page_samples import HOSTILE, LONG, R, grid_of_parts, sample_page

from unlearnbench.report.frame.frame import frame_of
from unlearnbench.report.page import page_text
from unlearnbench.report.page.content import PageSource

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
FOCUSABLE = "a[href], button, select, summary, [tabindex='0']"


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
        "return [...document.querySelectorAll('#board tbody tr')].filter((row) => row.getClientRects().length).map("
        "(row) => ({ ...row.dataset, method: row.querySelector('th').textContent.trim(),"
        " cells: [...row.querySelectorAll('td.number')].map((cell) => cell.innerText.trim()) }))"
    )
    return found


def listed(page: Any) -> list[Any]:
    """Wait until records are listed: the page does it once the address has changed."""
    waiting = WebDriverWait(page, 60)
    return list(waiting.until(lambda one: one.find_elements("css selector", "#records tbody tr")))


def visible(page: Any, selector: str) -> int:
    return int(
        page.execute_script(
            "return [...document.querySelectorAll(arguments[0])].filter((one) => one.getClientRects().length).length",
            selector,
        )
    )


def test_a_click_on_a_head_sorts_and_another_turns_it_round(page: Any) -> None:
    head = page.find_element("css selector", "th[data-head='f1-shard'] button")
    head.click()
    first = rows(page)
    scores = [row["cells"][1] for row in first]
    # What failed has no score and stands last, whichever way the rest goes.
    assert (first[-1]["method"], scores[-1]) == ("scrub", "–")  # noqa: RUF001
    numbers = [float(score.split(" ")[0]) for score in scores[:-1]]
    assert numbers == sorted(numbers, reverse=True)
    assert first[0]["method"] == "retrain"
    assert head.find_element("xpath", "..").get_attribute("aria-sort") == "descending"
    head.click()
    second = rows(page)
    assert [float(row["cells"][1].split(" ")[0]) for row in second[:-1]] == sorted(numbers)
    assert second[-1]["method"] == "scrub"
    page.find_element("css selector", "th[data-head='seconds'] button").click()
    seconds = [float(row["cells"][5].split(" ")[0]) for row in rows(page)[:-1]]
    assert seconds == sorted(seconds)
    choose(page, "sort-by", "method")
    assert [row["method"] for row in rows(page)] == sorted(row["method"] for row in rows(page))


def test_the_table_of_forgetting_sorts_and_a_click_lists_the_records(page: Any) -> None:
    def column(at: int) -> list[str]:
        rows = page.find_elements("css selector", "table.evidence tbody tr")
        return [row.find_elements("css selector", "th, td")[at].text for row in rows]

    head = page.find_elements("css selector", "table.evidence th button")[-1]
    for sign, order in ((1, "ascending"), (-1, "descending")):
        head.click()
        assert head.find_element("xpath", "..").get_attribute("aria-sort") == order
        numbers = [float(text.split(" ")[0]) for text in column(-1) if text]
        assert numbers == sorted(numbers, reverse=sign < 0)
        assert column(-1)[: len(numbers)] == [text for text in column(-1) if text]
    cell = page.find_element("css selector", "table.evidence td:nth-child(3) a")
    assert cell.get_attribute("title").startswith("the verdict of the audit exactness")
    cell.click()
    listed(page)
    assert cell.text in page.find_element("css selector", "#records caption").text


def test_filters_leave_what_they_name(page: Any) -> None:
    at_first = rows(page)
    assert {(row["dataset"], row["model"]) for row in at_first} == {("cora", "gcn")}
    choose(page, "filter-model", "gat")
    assert [row["method"] for row in rows(page)] == ["retrain", "sisa"]
    assert page.find_element("id", "count").text.startswith("2 of ")
    assert visible(page, "#time figure") == 2
    choose(page, "filter-model", "")
    assert {row["model"] for row in rows(page)} == {"gcn", "gat"}
    choose(page, "filter-dataset", "digits")
    choose(page, "filter-protocol", "")
    assert {row["dataset"] for row in rows(page)} == {"digits"}
    assert visible(page, "#cost svg[role]") == 1
    choose(page, "filter-protocol", "www24, 16 nodes")
    assert {row["protocol"] for row in rows(page)} == {"www24, 16 nodes"}
    choose(page, "filter-model", "gat")
    assert rows(page) == []
    assert "No records match" in page.find_element("id", "count").text


def test_a_view_shows_its_columns_and_figures_alone(page: Any) -> None:
    parts = ("#board th.v-shard", "#board th.v-full", "#time svg[role]")
    assert [visible(page, part) for part in parts] == [2, 2, 2]
    choose(page, "filter-view", "full")
    assert [visible(page, part) for part in parts] == [0, 2, 1]
    assert visible(page, "table.heat.v-shard") == 0
    assert visible(page, "table.heat.v-full") == 1


def test_a_number_leads_to_its_records_and_the_address_can_be_kept(page: Any, address: str) -> None:
    row = next(at for at in rows(page) if at["method"] == "sisa")
    page.find_element("css selector", f"#board tr[data-at='{row['at']}'] a[href$='-1']").click()
    records = listed(page)
    assert len(records) == R
    caption = page.find_element("css selector", "#records caption").text
    assert caption == f"sisa, cora, gcn on cpu, forgetting 0.5 % of nodes: F1 shard % {row['cells'][1]}"
    assert [one.find_element("css selector", "td").text for one in records] == ["yes"] * R
    link = records[0].find_element("css selector", "a").get_attribute("href")
    assert link.startswith(address.rpartition("/")[0].rpartition("/")[0] + "/records/m-0001/cora/sisa/")
    choose(page, "filter-model", "gat")
    kept = page.current_url
    page.get("about:blank")
    page.get(kept)
    assert {at["model"] for at in rows(page)} == {"gat"}
    page.get("about:blank")
    page.get(f"{address}#records={row['at']}-1")
    assert len(listed(page)) == R


def test_failed_records_are_listed_as_failed(page: Any) -> None:
    page.find_element("link text", f"failed {R}").click()
    records = listed(page)
    assert [one.find_element("css selector", "td.bad").text for one in records] == ["error: ValueError"] * R
    assert [one.find_element("css selector", "td").text for one in records] == ["no"] * R


def test_labels_do_not_run(page: Any) -> None:
    choose(page, "filter-protocol", "")
    choose(page, "filter-model", "")
    choose(page, "filter-dataset", HOSTILE)
    assert [row["method"] for row in rows(page)] == [HOSTILE]
    page.find_element("css selector", "#board tr:not([hidden]) td.number a").click()
    listed(page)
    assert HOSTILE in page.find_element("css selector", "#records caption").text
    assert HOSTILE in page.find_element("css selector", "#time figcaption").text
    assert page.execute_script("return window.pwned") is None
    assert page.find_elements("css selector", "img") == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 320])
def test_nothing_is_wider_than_a_telephone(page: Any, width: int, theme: str) -> None:
    size(page, width, theme)
    page.refresh()
    for name in ("filter-dataset", "filter-model", "filter-protocol"):
        choose(page, name, "")
    page.execute_script("for (const one of document.querySelectorAll('details')) one.open = true;")
    page.find_element("css selector", "#board td.number a").click()
    listed(page)
    assert page.execute_script("return document.documentElement.scrollWidth") == width
    background = page.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert background == {"light": "rgb(255, 255, 255)", "dark": "rgb(15, 20, 25)"}[theme]


@pytest.mark.parametrize("width", [1280, 390])
def test_many_rows_with_long_names_stay_in_the_page_and_are_folded(browser: Any, tmp_path: Path, width: int) -> None:
    path = tmp_path / "index.html"
    path.write_text(page_text(frame_of(grid_of_parts(LONG)), None, PageSource()), "utf-8")
    size(browser, width)
    browser.get(path.as_uri())
    inner = browser.execute_script("return document.documentElement.clientWidth")
    assert browser.execute_script("return document.documentElement.scrollWidth") == inner
    # Four rows of one look are one line of the legend until it is opened.
    assert browser.find_element("css selector", "#time .legend").text == "sharded, 4 rows"
    browser.execute_script("for (const one of document.querySelectorAll('.legend details')) one.open = true;")
    assert LONG in browser.find_element("css selector", "#time .legend").text
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
    head = page.find_element("css selector", "th[data-head='ratio'] button")
    head.send_keys("\ue007")
    assert head.find_element("xpath", "..").get_attribute("aria-sort") == "ascending"


def test_figures_say_what_they_show(page: Any) -> None:
    said = page.execute_script(
        "return [...document.querySelectorAll('figure svg[role=img]')].map((one) => one.getAttribute('aria-labelledby')"
        ".split(' ').map((id) => document.getElementById(id).textContent))"
    )
    assert len(said) == 4
    titles = [title for title, _ in said]
    assert titles[0] == "cora, gcn on cpu, forgetting 0.5 % of nodes, view shard"
    assert "retrain: 86.00 % in 1 s" in said[0][1]
    assert f"not drawn: scrub (failed {R})" in said[0][1]
    assert "sisa: 0.5 s" in said[3][1]
    # A drawing without words is not read out.
    assert visible(page, "svg:not([role=img]):not([aria-hidden=true])") == 0
