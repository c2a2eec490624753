"""The table of known troubles: each leads to the tests of it, and every test file that it names is there."""

from __future__ import annotations

import re

import pytest
from repository import ROOT

PAGE = ROOT / "tests" / "pains" / "README.md"
ROWS = re.findall(r"^\| (.+?) \| (.+?) \| (.*?) ?\|$", PAGE.read_text(encoding="utf-8"), re.M)[1:]
LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")


def test_every_section_is_numbered_without_a_gap() -> None:
    sections: dict[str, list[int]] = {}
    for name, _, _ in ROWS:
        entry = LINK.fullmatch(name)
        assert entry is not None, name
        letter, number = re.findall(r"^([A-H])(\d+) \w", entry[1])[0]
        sections.setdefault(letter, []).append(int(number))
    assert list(sections) == list("ABCDEFGH")
    assert {letter: len(numbers) for letter, numbers in sections.items()} == {
        "A": 15, "B": 14, "C": 7, "D": 10, "E": 8, "F": 8, "G": 7, "H": 16,
    }  # fmt: skip
    assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in sections.values())


@pytest.mark.parametrize(("name", "rule", "others"), ROWS, ids=[LINK.sub(r"\1", name) for name, _, _ in ROWS])
def test_a_trouble_leads_to_its_tests(name: str, rule: str, others: str) -> None:
    assert rule
    for text, target in LINK.findall(name + others):
        path = PAGE.parent / target
        assert path.is_file(), target
        assert "\ndef test_" in path.read_text(encoding="utf-8"), target
        if text.endswith(".py"):
            assert text == path.name


def test_no_trouble_shares_its_tests_with_another() -> None:
    targets = [target for name, _, _ in ROWS for _, target in LINK.findall(name)]
    assert len(set(targets)) == len(targets) == len(ROWS)


def test_every_test_file_that_is_named_is_a_link() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert re.findall(r"\w+\.py", LINK.sub("", text)) == ["bekm.py"]  # a script of benchmarks/
