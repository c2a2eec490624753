"""A grid is counted before it is multiplied out: what is too large is refused at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from unlearnbench.errors import UsageError
from unlearnbench.running.config import make_config, read_run_file


def run_file(folder: Path, text: str) -> Path:
    path = folder / "run.toml"
    path.write_text(text, encoding="utf-8")
    return path


def digits(number: int) -> str:
    return "".join(f"d{at} = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]\n" for at in range(number))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"[[methods]]\nname = 'sisa'\n{digits(9)}", "3,000,000,000 cells"),
        (f"repetitions = 1\n[[methods]]\nname = 'sisa'\n{digits(5)}[[methods]]\nname = 'sisa'", "100,001 cells"),
        # A list without values leaves no bracket, and is no way round the bound.
        (
            f"[[methods]]\nname = 'sisa'\nnone = []\n[methods.partitioner]\nname = 'gpa'\n{digits(9)}",
            "methods 1,000,000,000;",
        ),
        (f"methods = []\n[[datasets]]\nname = 'sbm'\n{digits(9)}", "3,000,000,000 cells"),
        (f"[[models]]\nname = 'gcn'\n{digits(5000)}", "more than 10^15 cells"),
        ("repetitions = 10000\nmethods = ['sisa']\ndatasets = '" + ",".join(["sbm"] * 11) + "'", "110,000 cells"),
    ],
)
def test_a_grid_is_counted_before_it_is_multiplied_out(tmp_path: Path, text: str, shown: str) -> None:
    with pytest.raises(UsageError, match=r"more than the 100,000 that one run may have \(datasets ") as caught:
        make_config(read_run_file(run_file(tmp_path, text)))
    assert shown in caught.value.message


@pytest.mark.slow
def test_a_grid_of_the_largest_size_is_read(tmp_path: Path) -> None:
    text = f"repetitions = 1\n[[methods]]\nname = 'sisa'\n{digits(5)}"
    config = make_config(read_run_file(run_file(tmp_path, text)))
    assert len(config.brackets(config.methods)) == 100_000


def test_many_repetitions_are_read_at_once() -> None:
    assert len(make_config({"methods": [], "seeds": list(range(100_000))}).repetition_numbers()) == 100_000
