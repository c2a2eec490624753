"""Which column of a table is what: its heading decides, its place only where no heading says otherwise."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from unlearnbench.datasets.own.edge_weights import OPTION
from unlearnbench.errors import DataError

# Compared without case, spaces and punctuation: `Node ID` is `nodeid`.
_IDS = frozenset({"id", "ids", "node", "nodes", "nodeid", "nodeids", "vertex", "vertexid"})
_CLASSES = frozenset({"label", "labels", "y", "class", "classes", "classlabel", "category", "target"})
_SOURCES = frozenset(
    {"source", "sources", "src", "from", "u", "sourceid", "srcid", "fromid", "fromnode", "fromnodeid", "sourcenode"}
    | {"node1", "id1", "nodeid1", "start"}
)
_TARGETS = frozenset(
    {"target", "targets", "dst", "tgt", "to", "v", "dest", "destination", "targetid", "dstid", "toid", "tonode"}
    | {"tonodeid", "targetnode", "node2", "id2", "nodeid2", "end"}
)
_PARTS = frozenset({"split", "splits", "fold", "train", "val", "test", "trainmask", "valmask", "testmask"})
_WEIGHTS = frozenset({"weight", "weights", "edgeweight"})
_ROW_NUMBERS = frozenset({"index", "level0", "rowid", "rownumber"})
_KNOWN = _IDS | _CLASSES | _SOURCES | _TARGETS | _PARTS | _WEIGHTS
_NO_HEADING = re.compile(r"\s*(Unnamed: \d+.*)?")


@dataclass(frozen=True)
class Role:
    """What a column holds.

    Args:
        what: In words, for messages.
        names: The headings that say so.
        example: The heading to write.
    """

    what: str
    names: frozenset[str]
    example: str


ID = Role("the node's id", _IDS, "id")
CLASS = Role("the label", _CLASSES, "label")
SOURCE = Role("the source of an edge", _SOURCES, "source")
TARGET = Role("the target of an edge", _TARGETS, "target")
WEIGHT = Role("the weight of an edge", _WEIGHTS, "weight")


@dataclass
class Columns:
    """Where the columns of a table are.

    Args:
        places: The place of each role.
        rest: The places of all others that are used.
        notes: What was ignored, or decided without a heading that says so.
    """

    places: list[int]
    rest: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def choose_columns(
    path: Path, headings: Sequence[str], roles: Sequence[Role], *, empty: Sequence[int] = (), features: bool = False
) -> Columns:
    """Choose a column for each role.

    Args:
        path: The table, for messages.
        headings: As they are written.
        roles: What is looked for, in the usual order of the columns.
        empty: Places of columns in which nothing stands; without a heading they are no columns.
        features: Whether the other columns are features; else they are ignored.

    Raises:
        DataError: The headings leave a choice, or contradict it; names the columns.
    """
    blank = [at for at, heading in enumerate(headings) if _NO_HEADING.fullmatch(heading)]
    columns = [at for at in range(len(headings)) if at not in blank or at not in empty]
    blank = [at for at in blank if at in columns]
    plain = [re.sub(r"[\W_]", "", heading).lower() for heading in headings]
    chosen = [_named(path, headings, [at for at in columns if plain[at] in role.names], role) for role in roles]
    missing = [role for role, at in zip(roles, chosen, strict=True) if at is None]
    left = [at for at in columns if at not in chosen]
    if missing:
        if blank or len(left) < len(missing) or (len(left) > len(missing) and not features):
            raise _unclear(path, [headings[at] for at in columns], missing)
        for role, at in zip(missing, left, strict=False):
            if plain[at] in _KNOWN or (plain[at] in _ROW_NUMBERS and role is not ID):
                raise _unclear(path, [headings[at] for at in columns], missing)
            chosen[roles.index(role)] = at
    places = [at for at in chosen if at is not None]
    result = Columns(places)
    if missing or places != columns[: len(places)]:
        taken = (f"{role.what} is {headings[at]!r}" for role, at in zip(roles, places, strict=True))
        result.notes.append(f"{path.name}: {', '.join(taken)}.")
    others = [at for at in columns if at not in places]
    if features:
        numbers = [at for at in others if plain[at] in _ROW_NUMBERS or (at in blank and at < places[0])]
        result.rest = [at for at in others if at not in numbers]
        _check_features(path, headings, plain, result, blank)
        others = numbers
    if others:
        ignored = [headings[at] if at not in blank else f"column {at + 1}, which has no heading" for at in others]
        if TARGET in roles:
            of_weights = [plain[at] in _WEIGHTS for at in others]
            ignored = [
                f"{one} ({OPTION} uses it)" if yes else one for one, yes in zip(ignored, of_weights, strict=True)
            ]
        result.notes.append(f"{path.name}: ignored: {', '.join(ignored)}.")
    return result


def _named(path: Path, headings: Sequence[str], matches: list[int], role: Role) -> int | None:
    if len(matches) > 1:
        raise DataError(
            f"{path}: each of {_listed([headings[at] for at in matches])} could be {role.what}.",
            f"Name one column {role.example}, and the others otherwise.",
        )
    return matches[0] if matches else None


def _unclear(path: Path, headings: list[str], missing: list[Role]) -> DataError:
    asked = " and which is ".join(role.what for role in missing)
    return DataError(
        f"{path}: its columns are {_listed(headings)}; which is {asked}?",
        f"Name it {' and '.join(role.example for role in missing)}; pandas writes no row numbers with index=False.",
    )


def _check_features(
    path: Path, headings: Sequence[str], plain: list[str], columns: Columns, blank: Sequence[int]
) -> None:
    wrong = [at for at in columns.rest if at in blank or plain[at] in _CLASSES | _PARTS]
    if wrong:
        raise DataError(
            f"{path}: {_listed([headings[at] for at in wrong])} among the features.",
            "Take out what is no feature, such as labels; name every feature, and otherwise than that.",
        )
    if not columns.rest:
        raise DataError(f"{path}: no column holds features.", "Leave the table out and take features=degree.")
    twice = [heading for heading, count in Counter(headings[at] for at in columns.rest).items() if count > 1]
    if twice:
        columns.notes.append(f"{path.name}: several features are called {_listed(twice)}.")


def _listed(headings: Sequence[str]) -> str:
    shown = [repr(heading) if heading.strip() else "one without a heading" for heading in headings]
    return ", ".join(shown[:8]) + (f" and {len(shown) - 8} more" if len(shown) > 8 else "")
