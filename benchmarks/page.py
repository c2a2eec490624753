"""How large the report page of many records is, how long it takes to make, and how long a browser takes to load it.

The records of a results folder are repeated until there are enough: with other seeds (more repetitions of the same
groups) and as other datasets (more groups, the larger page). Loading is timed in a headless Chromium, if there is one
and selenium is installed: from the start of navigation to the end of the load event, scripts and figures included.

    python benchmarks/page.py [--results results] [--records 2000] [--rounds 5]
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unlearnbench.errors import NothingMatchedError
from unlearnbench.records.reading import read_records
from unlearnbench.records.record import Record
from unlearnbench.report.frame.frame import frame_of
from unlearnbench.report.page import page_text
from unlearnbench.report.page.content import PageSource
from unlearnbench.report.tables.audits import audit_frame_of


def repeated(records: Sequence[Record], number: int, by: str) -> list[Record]:
    """Repeat records until there are so many; those of a further round differ in their seed or their dataset."""
    copies = []
    for at in range(number):
        copy, record = divmod(at, len(records))
        one = records[record]
        if copy:
            dataset = {**one.cell["dataset"], "name": f"{one.cell['dataset']['name']}-{copy}"}
            change = {"seed": 1000 + copy} if by == "seeds" else {"dataset": dataset}
            key = hashlib.sha256(f"{one.key} {copy}".encode()).hexdigest()[: len(one.key)]
            one = one.model_copy(update={"cell": {**one.cell, **change}, "key": key})
        copies.append(one)
    return copies


def load_seconds(path: Path, rounds: int) -> list[float] | None:
    """Time the loading of a page; None without a browser or without selenium."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (chromium and driver and importlib.util.find_spec("selenium")):
        return None
    from selenium import webdriver

    settings = webdriver.ChromeOptions()
    settings.binary_location = chromium
    for argument in ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1280,900"):
        settings.add_argument(argument)
    if os.geteuid() == 0:
        settings.add_argument("--no-sandbox")
    browser: Any = webdriver.Chrome(options=settings, service=webdriver.ChromeService(executable_path=driver))
    try:
        times = []
        for _ in range(rounds + 1):
            browser.get("about:blank")
            browser.get(path.as_uri())
            times.append(
                browser.execute_script("return performance.getEntriesByType('navigation')[0].loadEventEnd") / 1000
            )
    finally:
        browser.quit()
    return times[1:]


def main() -> None:
    """Print a line for each way to repeat."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path(__file__).parents[1] / "results")
    parser.add_argument("--records", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    stored = list(read_records(options.results))
    records = [record for record in stored if not record.is_audit]
    if not records:
        raise NothingMatchedError(f"{options.results}: no records.")
    audits = audit_frame_of([record for record in stored if record.is_audit])
    with tempfile.TemporaryDirectory() as folder:
        for by in ("seeds", "datasets"):
            frame = frame_of(repeated(records, options.records, by))
            start = time.perf_counter()
            text = page_text(frame, audits, PageSource("results", "../"))
            made = time.perf_counter() - start
            path = Path(folder) / f"{by}.html"
            path.write_text(text, "utf-8")
            times = load_seconds(path, options.rounds)
            loaded = "no browser" if times is None else f"loaded in {statistics.median(times):.2f} s"
            rows = text.count("<tr data-dataset")
            print(
                f"{options.records} records by other {by}: {rows} rows, {path.stat().st_size / 1e6:.2f} MB,"
                f" made in {made:.1f} s, {loaded} (median of {options.rounds})"
            )


if __name__ == "__main__":
    main()
