"""Trials on disk: a journal of optuna in which every finished trial is one line, and nothing is unpickled."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unlearnbench.component import Range
from unlearnbench.errors import UnlearnbenchError, UsageError
from unlearnbench.records.files import make_folder
from unlearnbench.report.extra import import_extra
from unlearnbench.running.tuned import Point
from unlearnbench.tuning.objective import Outcome

JOURNAL = "trials.journal"
_NUMBER, _POINT, _OUTCOME, _FAILURE = "number", "point", "outcome", "failure"


@dataclass(frozen=True)
class Trial:
    """One point that was tried.

    Args:
        number: Its place among the points of its method.
        point: The values that differ from the defaults.
        outcome: What it showed; None: it failed.
        failure: Why it failed.
    """

    number: int
    point: Point
    outcome: Outcome | None
    failure: str = ""


class Studies:
    """The studies of a folder, each a method on a graph with a base model.

    Any tool of optuna reads the journal (`optuna.storages.journal.JournalFileBackend`).

    Raises:
        UsageError: optuna is not installed, or the journal is damaged.
        WriteError: The folder cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        self._optuna = import_extra("optuna", "Tuning needs optuna", extra="tune")
        self._optuna.logging.set_verbosity(self._optuna.logging.WARNING)
        path = make_folder(folder) / JOURNAL
        self._opened: dict[str, Any] = {}
        _drop_unfinished_line(path)
        journal = self._optuna.storages.journal
        try:
            self._storage = self._optuna.storages.JournalStorage(journal.JournalFileBackend(str(path)))
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{path} is damaged: {error}.", "Remove it, or name another folder with `out`.") from None

    def trials(self, study: str) -> dict[int, Trial]:
        """Return the finished trials of a study by their number."""
        found: dict[int, Trial] = {}
        for trial in self._study(study).get_trials(deepcopy=False):
            attributes: Mapping[str, Any] = trial.user_attrs
            outcome = Outcome(**attributes[_OUTCOME]) if _OUTCOME in attributes else None
            # Two processes may have made the same one.
            found.setdefault(
                attributes[_NUMBER],
                Trial(attributes[_NUMBER], attributes[_POINT], outcome, attributes.get(_FAILURE, "")),
            )
        return found

    def add(self, study: str, trial: Trial, space: Mapping[str, Range]) -> None:
        """Append a finished trial."""
        optuna = self._optuna
        kinds = {name: _distribution(optuna, values) for name, values in space.items() if name in trial.point}
        inside = {name: value for name, value in trial.point.items() if name in kinds}
        attributes: dict[str, Any] = {_NUMBER: trial.number, _POINT: dict(trial.point)}
        if trial.outcome is None:
            state, value = optuna.trial.TrialState.FAIL, None
            attributes[_FAILURE] = trial.failure
        else:
            state, value = optuna.trial.TrialState.COMPLETE, trial.outcome.loss
            attributes[_OUTCOME] = trial.outcome.__dict__.copy()
        self._study(study).add_trial(
            optuna.trial.create_trial(
                state=state, value=value, params=inside, distributions=kinds, user_attrs=attributes
            )
        )

    def _study(self, name: str) -> Any:
        if name not in self._opened:
            self._opened[name] = self._optuna.create_study(storage=self._storage, study_name=name, load_if_exists=True)
        return self._opened[name]


def run_trial(number: int, point: Point, judge: Any) -> Trial:
    """Try a point; whatever the method does wrong there is a failed trial.

    Args:
        number: Its place.
        point: The values.
        judge: A function of a point that returns its `Outcome`.
    """
    try:
        outcome: Outcome = judge(point)
    except UnlearnbenchError as error:
        return Trial(number, point, None, error.message)
    except (ValueError, RuntimeError, ArithmeticError) as error:
        return Trial(number, point, None, f"{type(error).__name__}: {error}")
    return Trial(number, point, outcome)


def _distribution(optuna: Any, values: Range) -> Any:
    kinds = optuna.distributions
    kind = kinds.IntDistribution if values.whole else kinds.FloatDistribution
    return kind(values.low, values.high, log=values.log)


def _drop_unfinished_line(path: Path) -> None:
    """Remove the last line of a journal if its writer was ended within it: it is no trial."""
    if not path.exists():
        return
    content = path.read_bytes()
    end = content.rfind(b"\n") + 1
    if end < len(content):
        path.write_bytes(content[:end])
    for number, line in enumerate(content[:end].splitlines(), start=1):
        try:
            json.loads(line)
        except ValueError:
            raise UsageError(
                f"{path} is damaged: line {number} is no JSON.", "Remove it, or name another folder with `out`."
            ) from None
