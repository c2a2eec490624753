"""Tables for papers: methods by datasets in LaTeX, which compile without a box that sticks out."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest
from page_samples import WOBBLE
from record_samples import make_record

from unlearnbench.errors import UsageError
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.report import frame_of
from unlearnbench.report.tables.paper import paper_tables

CLASSES = {
    "one column": (r"\documentclass{article}", "page"),
    "two columns": (r"\documentclass[twocolumn]{article}", "column"),
    "acm": (r"\documentclass[sigconf,nonacm]{acmart}", "column"),
    "acm, one column": (r"\documentclass[manuscript,nonacm]{acmart}", "page"),
}
# Where a class of two columns begins the second.
TITLE = r"\title{A paper}\author{A. Uthor}\maketitle"


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """Return records of three methods on four graphs; one method lacks a graph, one has a long label."""
    methods = {"retrain": 0.86, "graphrevoker": 0.84, "gradient-ascent": 0.5, "sisa": 0.8}
    labels = {"sisa": "sisa[num_shards=3,partitioner=hash]"}
    records = [
        make_record(method, r, full=f1 + by, seconds=1.0 if method == "retrain" else 0.3, dataset=dataset).model_copy(
            update={"label": labels.get(method, method)}
        )
        for dataset in ("cora", "citeseer", "amazon-photo", "ogbn-arxiv")
        for method, f1 in methods.items()
        for r, by in enumerate(WOBBLE)
        if (method, dataset) != ("graphrevoker", "cora")
    ]
    return frame_of(records)


def test_a_table_for_a_paper_has_methods_by_datasets(frame: pd.DataFrame) -> None:
    text = paper_tables(frame, load_catalogue(only=["unlearnbench"]), width="page", command="Made by: it")
    lines = text.splitlines()
    assert r"\label{tab:gcn-0-5-of-nodes-www24}" in lines
    assert r" & \multicolumn{2}{c}{Amazon Photo} & \multicolumn{2}{c}{CiteSeer} & \multicolumn{2}{c}{Cora} \\" in text
    assert r"\raggedright Gradient ascent & 50.0\,$\pm$\,1.6 & 0.30 " in text
    assert any(line.startswith(r"\raggedright GraphRevoker & 84.0") and "-- & --" in line for line in lines)
    assert "sisa" not in text.lower()
    assert r"\toprule" in lines
    assert lines.index(r"\end{table*}") > next(i for i, line in enumerate(lines) if "repetitions, mean" in line)
    assert lines[-1] == "% Made by: it"
    every = paper_tables(frame, load_catalogue(only=["unlearnbench"]), ["f1-shard"], all_variants=True)
    assert r"SISA\allowbreak [\allowbreak num\_shards=\allowbreak 3,\allowbreak partitioner=\allowbreak hash]" in every


def test_a_negative_number_has_a_minus_sign_and_unknown_columns_are_told(frame: pd.DataFrame) -> None:
    lower = frame.assign(f1_micro=-frame["f1_micro"])
    assert r"$-$86.0\,$\pm$\,1.6" in paper_tables(lower, load_catalogue(only=["unlearnbench"]), ["f1-full"])
    with pytest.raises(UsageError, match="Unknown column 'f1'") as caught:
        paper_tables(frame, load_catalogue(only=["unlearnbench"]), ["f1"])
    assert "Known: f1-full, f1-shard, memory, seconds, time." in caught.value.hint


def test_tables_that_differ_in_the_training_say_so_and_have_labels_of_their_own(frame: pd.DataFrame) -> None:
    longer = frame.assign(training_config=frame["training_config"].str.replace('"epochs":100', '"epochs":200'))
    assert not longer.equals(frame)
    text = paper_tables(pd.concat([frame, longer]), load_catalogue(only=["unlearnbench"]))
    labels = [line for line in text.splitlines() if line.startswith(r"\label")]
    assert labels == [f"\\label{{tab:gcn-0-5-of-nodes-www24-training-epochs-{n}}}" for n in (100, 200)]
    assert r"\{training.epochs=" in text


@pytest.mark.slow
@pytest.mark.parametrize("document", CLASSES)
def test_no_box_of_a_table_sticks_out_of_its_column(frame: pd.DataFrame, tmp_path: Path, document: str) -> None:
    if shutil.which("pdflatex") is None:
        pytest.skip("needs pdflatex")
    head, width = CLASSES[document]

    def compiled(body: str) -> str:
        (tmp_path / "paper.tex").write_text(
            f"{head}\n\\usepackage{{booktabs}}\n\\begin{{document}}\n{TITLE}\n{body}\n\\end{{document}}\n", "utf-8"
        )
        command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120)
        return "" if done.returncode else (tmp_path / "paper.log").read_text("latin-1")

    if not compiled("A word."):
        pytest.skip(f"LaTeX here lacks what {head} needs")
    columns = ["f1-full", "f1-shard", "time", "seconds", "memory"]
    catalogue = load_catalogue(only=["unlearnbench"])
    log = compiled("\n".join(paper_tables(frame, catalogue, columns[:n], width, all_variants=True) for n in (1, 2, 3)))
    assert log
    assert "Overfull" not in log
