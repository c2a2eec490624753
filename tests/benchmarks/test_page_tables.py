"""A program writes the tables of a page and nothing else."""

from __future__ import annotations

import importlib

import pytest
from repository import ROOT

PAGE = "Before.\n\n<!-- table squares -->\n\n| old |\n\n<!-- end -->\n\nAfter.\n"


@pytest.fixture
def pages(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("page_tables")


def tables(pages):
    return {"squares": lambda numbers: pages.table(["n", "square"], ([str(n), str(n * n)] for n in numbers))}


def test_a_page_keeps_its_text_and_takes_the_numbers(pages):
    anew = pages.written(PAGE, tables(pages), [2, 3])
    assert anew == PAGE.replace("| old |", "| n | square |\n|---|---|\n| 2 | 4 |\n| 3 | 9 |")
    assert pages.written(anew, tables(pages), [2, 3]) == anew
    with pytest.raises(KeyError):
        pages.written(PAGE.replace("squares", "unknown"), tables(pages), [2, 3])


def test_a_stale_table_is_named(pages, monkeypatch, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    monkeypatch.setattr("sys.argv", ["squares.py", "--page", str(page), "--check"])
    with pytest.raises(SystemExit, match=r"not what the records say: squares\. Run: python squares\.py"):
        pages.main("", page, tables(pages), lambda folder: [2])
    assert page.read_text() == PAGE
    monkeypatch.setattr("sys.argv", ["squares.py", "--page", str(page)])
    pages.main("", page, tables(pages), lambda folder: [2])
    assert "| 2 | 4 |" in page.read_text()
    monkeypatch.setattr("sys.argv", ["squares.py", "--page", str(page), "--check"])
    pages.main("", page, tables(pages), lambda folder: [2])
