"""Tables and messages in a narrow terminal: where lines are broken, and which notes stand below."""

from __future__ import annotations

import io
import sys
import warnings

import pandas as pd
import pytest
from page_samples import spread
from record_samples import make_record

from unlearnbench import messages
from unlearnbench.papers import Paper
from unlearnbench.report import frame_of
from unlearnbench.report.tables.index import build_tables
from unlearnbench.report.tables.layout import common_above, filled, grouped, laid_out, wrapped
from unlearnbench.report.tables.notes import Command, Note, gathered
from unlearnbench.report.tables.render import render
from unlearnbench.report.tables.sentences import sentence
from unlearnbench.report.tables.table import Table
from unlearnbench.report.tables.text import MOST_NOTES

LABEL = "grapheraser[keep=best,lr=0.001,pool=legacy] (repaired)"


def test_a_label_is_broken_behind_commas_and_a_spread_stays_with_its_sign() -> None:
    assert wrapped(LABEL, 24, is_label=True) == (
        "grapheraser[keep=best,",
        "  lr=0.001,pool=legacy]",
        "  (repaired)",
    )
    assert wrapped("12.06 ± 3.57 *", 9) == ("12.06", "± 3.57 *")
    assert wrapped("0.797 [0.763, 0.832]", 10) == ("0.797", "[0.763,", "0.832]")
    assert wrapped("short", 9) == ("short",)
    assert wrapped("unbreakable", 4) == ("unbreakable",)


def test_heads_are_broken_before_cells_and_no_line_is_wider_than_asked() -> None:
    heads, rows = ["method", "relative to Retrain", "peak MiB"], [["sisa", "0.63", "798"], ["retrain", "1.00", "833"]]
    lines = laid_out(heads, rows, 24)
    assert lines == [
        "method   relative  peak",
        "         to        MiB",
        "         Retrain",
        "-------  --------  ----",
        "sisa     0.63      798",
        "retrain  1.00      833",
    ]
    assert laid_out(heads, rows, 12) is None
    assert laid_out(heads, rows, None) == [
        "method   relative to Retrain  peak MiB",
        "-------  -------------------  --------",
        "sisa     0.63                 798",
        "retrain  1.00                 833",
    ]


def test_rows_that_share_their_first_cells_stand_below_them() -> None:
    heads = ["method", "measure", "where", "value", "runs"]
    places = ("forgotten", "hop 1", "test")
    rows = [[name, "distance", place, "0.1", "10"] for name in ("gif", "retrain") for place in places]
    below = [f"  {place}" for place in places]
    assert laid_out(heads, rows, 20) is None
    assert grouped(heads, rows, 20) == [
        "All rows: measure",
        "  distance; value",
        "  0.1; runs 10",
        "  where",
        "  ---------",
        "gif",
        *below,
        "retrain",
        *below,
    ]
    rows[0][3] = "0.25"
    assert (grouped(heads, rows, 40) or [])[:5] == [
        "All rows: measure distance; runs 10",
        "  where      value",
        "  ---------  -----",
        "gif",
        "  forgotten  0.25",
    ]
    # Two rows a method are too few.
    assert grouped(heads, rows[:2] + rows[3:5], 20) is None


def test_what_stands_in_all_rows_of_a_wide_table_stands_above_them() -> None:
    heads = ["method", "clean", "poisoned", "unlearned", "recovery"]
    rows = [[name, "0.87", "0.74", "0.81", recovery] for name, recovery in (("gif", "0.1"), ("etr", ""), ("noop", ""))]
    assert laid_out(heads, rows, 24) is None
    assert grouped(heads, rows, 24) is None
    assert common_above(heads, rows, 24) == [
        "All rows: clean 0.87;",
        "  poisoned 0.74;",
        "  unlearned 0.81",
        "method  recovery",
        "------  --------",
        "gif     0.1",
        "etr",
        "noop",
    ]
    assert common_above(heads, rows[:2], 24) is None


def test_columns_that_are_empty_in_every_row_take_no_room() -> None:
    heads, rows = ["method", "claim", "relearning"], [["sisa", "exact", ""], ["gif", "none", ""]]
    assert laid_out(heads, rows, 16) is None
    assert filled(heads, rows, 16) == ["method  claim", "------  -----", "sisa    exact", "gif     none"]


def test_the_summary_fits_80_columns() -> None:
    found = spread("retrain", 0.86, 1.0) + spread("sisa", 0.78, 0.5, shards_hit=7)
    found += [make_record(LABEL, r, status=status) for r, status in enumerate(("ok", "error", "oom", "diverged"))]
    text = render(build_tables(frame_of(found), "summary", "r"), width=80, short=True)
    assert max(map(len, text.splitlines())) <= 80
    assert sum(line.startswith("retrain ") for line in text.splitlines()) == 1


def sample_table(*notes: str) -> Table:
    return Table("t", "Caption.", pd.DataFrame({"method": ["sisa"]}), pd.DataFrame(), notes)


def test_notes_stand_once_below_the_last_table_with_the_numbers_of_theirs() -> None:
    made = Command("Made by: it")
    tables = [sample_table("of both", "of the first", made), sample_table("of both", Note("all of it", "half"), made)]
    tables += [sample_table("of both", Note("details"), made)]
    assert gathered([table.notes for table in tables], False) == (
        ["of both", "[1] of the first", "[2] all of it", "[3] details"],
        ["Made by: it"],
    )
    lines = render(tables, short=True).splitlines()
    assert [line for line in lines if line.endswith("Caption.")] == [f"[{n}] Caption." for n in (1, 2, 3)]
    assert lines[-5:] == [
        "of both",
        "[1] of the first",
        "[2] half",
        "1 more note: add --notes to the command below.",
        "Made by: it",
    ]
    assert render(tables[:1]).splitlines()[0] == "Caption."


def test_of_many_short_notes_the_first_are_shown_and_the_others_counted() -> None:
    lines = render([sample_table(*(f"note {n}" for n in range(MOST_NOTES + 5)))], short=True).splitlines()
    assert lines[-2:] == [f"note {MOST_NOTES - 1}", "5 more notes: add --notes to the command below."]


def test_long_notes_are_cut_to_their_first_clause() -> None:
    text = (
        "p: two-sided, after Holm; family: the best against every other method, in one table and one view; and no more."
    )
    assert gathered([[text]], True) == (["p: two-sided, after Holm."], [])
    assert gathered([[text]], False) == ([text], [])


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("forbidden", [False, True])
def test_messages_wrap_in_a_terminal_and_have_colour_unless_it_is_forbidden(
    monkeypatch: pytest.MonkeyPatch, forbidden: bool
) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if forbidden:
        monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("sys.stderr", Terminal())
    messages.error("There is no such thing as a table of that name.", "Type `unlearnbench report --list` now.")
    told = sys.stderr.getvalue()  # type: ignore[attr-defined]
    assert ("\x1b[31;1merror:\x1b[0m" in told) is not forbidden
    plain = told.replace("\x1b[31;1m", "").replace("\x1b[36m", "").replace("\x1b[0m", "")
    assert plain.splitlines() == [
        "error: There is no such thing",
        "       as a table of that",
        "       name.",
        "hint: Type",
        "      `unlearnbench report --list`",
        "      now.",
    ]


def test_a_message_in_a_pipe_is_one_line_without_colour(capsys: pytest.CaptureFixture[str]) -> None:
    messages.warning("word " * 40)
    assert capsys.readouterr().err == f"warning: {'word ' * 40}\n"


def test_what_torch_says_to_programmers_is_hidden_and_other_warnings_are_not() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.resetwarnings()
        messages.hide_warnings_of_torch()
        for module in ("torch.load", "torch_geometric.nn", "torchless", "mine"):
            warnings.warn_explicit("will change", FutureWarning, "file.py", 1, module)
    assert len(caught) == 2


def test_a_paper_is_cited_with_what_is_known_of_it() -> None:
    paper = Paper("Cao, Yi and Yang, J.", "Erase then Rectify: More", "S&P", 2025)
    assert paper.bibtex() == (
        "@inproceedings{cao2025erase,\n  author    = {Cao, Yi and Yang, J.},\n"
        "  title     = {{Erase then Rectify: More}},\n"
        "  booktitle = {S\\&P},\n  year      = {2025},\n}"
    )


def test_a_sentence_says_what_was_measured_and_nothing_else() -> None:
    told = sentence("finetune", "approximate", 0.91, -0.006, "f1_micro", 1 / 5.9)
    way = "9 % of the way to Retrain on the forgotten nodes"
    assert told == f"finetune: {way}, F1 -0.6 points, 5.9 times faster than Retrain."
    assert sentence("gif", distance=-0.3) == "gif: 100 % of the way to Retrain on the forgotten nodes."
    assert sentence("sisa", "exact-given-partition (ids)", 0.01) == "sisa: forgets exactly, given its partition."
    assert sentence("gif", ratio=2.72) == "gif: 2.7 times slower than Retrain."
    assert sentence("gif", ratio=1.001) == "gif: as fast as Retrain."
    assert sentence("gif", "approximate") == ""


def test_sentences_follow_a_table_from_its_own_records() -> None:
    found = spread("retrain", 0.86, 1.0) + spread("sisa", 0.78, 0.5)
    text = render(build_tables(frame_of(found), "summary", "r"), width=80, short=True)
    assert "\n\nsisa: F1 -8.0 points, 2.0 times faster than Retrain.\n\n" in text
