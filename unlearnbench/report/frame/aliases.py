"""Aliases: what users call methods, shown by tables and figures in place of the full names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import pandas as pd

from unlearnbench.records.record import Record
from unlearnbench.running.options import TUNED

NO_ALIASES: Mapping[str, str] = {}


def aliased(frame: pd.DataFrame, given: Mapping[str, str] = NO_ALIASES) -> pd.DataFrame:
    """Name the methods of a frame by their aliases, in the column `method`.

    The alias is the one `given`; or else the one that all records of the method which have any agree on, if no other
    method of the frame has it too. Otherwise the full name stays.

    Args:
        frame: Rows with `method`, `alias`, `label` and `method_config`.
        given: Canonical JSON of a method to its alias.

    Returns:
        The frame, where `alias` is what `method` shows, or empty.
    """
    recorded: dict[str, set[str]] = {}
    for config, alias in frame[["method_config", "alias"]].drop_duplicates().itertuples(index=False):
        recorded.setdefault(config, set()).update({alias} - {""})
    chosen = {config: next(iter(names)) for config, names in recorded.items() if len(names) == 1} | dict(given)
    owners: dict[str, list[str]] = {}
    for config, alias in chosen.items():
        owners.setdefault(alias, []).append(config)
    taken = set(frame["label"])
    kept = {
        config: alias
        for config, alias in chosen.items()
        if config in given or (len(owners[alias]) == 1 and alias not in taken)
    }
    alias = pd.Series([kept.get(config, "") for config in frame["method_config"]], frame.index, dtype="object")
    shown = alias + frame["method"].str.endswith(f" ({TUNED})").map({True: f" ({TUNED})", False: ""})
    return frame.assign(alias=alias, method=frame["method"].where(alias == "", shown))


def without_aliases(records: Iterable[Record]) -> Iterator[Record]:
    """Yield records without aliases, for what names every method by what it is."""
    return (record.model_copy(update={"alias": ""}) for record in records)


def alias_notes(shown: pd.DataFrame, *frames: pd.DataFrame | None) -> Iterator[str]:
    """Report what each alias in the cells or heads of a table stands for, once, by the frames the table is made of."""
    full = {
        str(alias): str(label)
        for frame in frames
        if frame is not None and "alias" in frame
        for alias, label in frame.loc[frame["alias"] != "", ["alias", "label"]]
        .drop_duplicates()
        .itertuples(index=False)
    }
    texts = {str(text) for text in (*shown.columns, *shown.to_numpy().ravel())} if full else set()
    for alias, label in sorted(full.items()):
        if any(text == alias or text.startswith(f"{alias} ") for text in texts):
            yield f"{alias} stands for {label}."
