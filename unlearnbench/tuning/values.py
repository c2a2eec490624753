"""What a tuning leaves behind: a CSV of all trials, and a TOML file of what was chosen."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from unlearnbench.component import canonical_json
from unlearnbench.tuning.choice import Choice, Study

FORMAT = 1
COLUMNS = (
    *("method", "version", "model", "graph", "objective", "trial", "loss", "f1", "retrain_f1", "neighbours", "values"),
    "failure",
)
_HEAD = """\
# Values that `unlearnbench tune` chose, for `--protocol tuned`; docs/tuning.md says how.
# `graph` is the graph that a row is for, empty: any that took no part. Written by the command below; do not edit.
"""


def trials_csv(studies: Sequence[Study]) -> str:
    """Write every trial as a row; losses and F1 with six digits."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for study in studies:
        place = {"method": study.method.label, "version": study.method.version, "model": study.model.label}
        for number, trial in sorted(study.trials.items()):
            row = {**place, "graph": study.graph, "objective": study.objective, "trial": number}
            measured = {} if trial.outcome is None else trial.outcome.__dict__
            row |= {name: f"{value:.6f}" for name, value in measured.items() if value is not None}
            writer.writerow({**row, "values": canonical_json(dict(trial.point)), "failure": trial.failure})
    return text.getvalue()


def values_toml(chosen: Sequence[Choice], origin: Mapping[str, Any], trials: str) -> str:
    """Write the choices, with the settings that made them and the digest of the CSV of trials."""
    facts = {**origin, "trials_sha256": hashlib.sha256(trials.encode()).hexdigest()}
    parts = [_HEAD, f"format = {FORMAT}\n\n[origin]\n", *(f"{key} = {_plain(value)}\n" for key, value in facts.items())]
    for one in chosen:
        parts += ["\n[[tuned]]\n", *(f"{key} = {_plain(value)}\n" for key, value in _row(one))]
    return "".join(parts)


def _row(one: Choice) -> Iterator[tuple[str, Any]]:
    yield from (("method", one.study.method.label), ("version", one.study.method.version))
    yield from (("model", one.study.model.label), ("graph", one.graph), ("chosen_on", list(one.chosen_on)))
    yield from (("objective", one.study.objective), ("trials", one.trials), ("failed", one.failed))
    yield from (("trial", one.trial), ("loss", round(one.loss, 6)))
    if one.default_loss is not None:
        yield "default_loss", round(one.default_loss, 6)
    yield from (("within_margin", one.within_margin), ("values", dict(one.point)))


def _plain(value: Any) -> str:
    """Write a text, a number, a list of texts or a flat table in TOML, which writes all but tables as JSON does."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{json.dumps(key)} = {_plain(inner)}' for key, inner in value.items())}}}"
    return json.dumps(value)
