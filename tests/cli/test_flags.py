"""Errors name settings as Python users know them; the command line prints flags instead."""

from __future__ import annotations

import pytest

from unlearnbench.cli import cli
from unlearnbench.cli.flags import with_flags
from unlearnbench.errors import UsageError
from unlearnbench.protocol import Forget


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("`forget_ratio` 2 is not between 0 and 1.", "--forget-ratio 2 is not between 0 and 1."),
        ("Use one of `forget_count`, `forget`.", "Use one of --forget-count, --forget."),
        ("Choose one: `kind` model.", "Choose one: --kind model."),
        ("with `overwrite` always, `set` seed", "with --overwrite always, --set seed"),
        ("What to forget: `dropout` is no setting.", "What to forget: `dropout` is no setting."),
        ("Make some: `unlearnbench run`.", "Make some: `unlearnbench run`."),
    ],
)
def test_settings_in_backquotes_are_printed_as_flags(text: str, printed: str) -> None:
    assert with_flags(text, cli) == printed


def test_an_error_in_python_names_the_setting() -> None:
    with pytest.raises(UsageError, match=r"^`forget_ratio` 2 is not between 0 and 1"):
        Forget(2.0)
