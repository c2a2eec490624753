"""What a record keeps of what was measured: all that tells something. The rest would double a results folder."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Mapping
from typing import Any

from unlearnbench.records.columns import written_columns

NOTHING: tuple[Any, ...] = (None, "", [], {})
"""What a part of a record is left out for."""

SECONDS = 6
"""Decimals: no clock is better than a microsecond."""
MIB = 3
"""Decimals: memory is counted in KiB or pages."""
METRIC = 10
"""Significant digits: any two shares of the nodes of a graph differ in them."""
AUDIT = 5
"""Significant digits: intervals leave three."""
DIGEST = 12
"""Hexadecimal digits of a digest of parameters or predictions: 48 bits tell those of all records apart."""
CHANGED = "changed"
"""In a file: the digests after the request that differ from those before."""
MEMBERS = "members"
"""In a file: the digests of all members before the request, in order of their numbers."""
_MEMBER = re.compile(rf"{MEMBERS}/([0-9]+)")
LOAD = 3
"""Decimals of a load average and of the number of busy cores."""

ON_CPU = "computed on cpu"
"""Why a record has no memory of a GPU, which its cell says already."""
HARNESS = "unlearnbench"
"""The distribution that the methods of this package come with."""
PER_SHARD = "seconds_per_shard"
"""What older records say they lack where `one_by_one` of their training is false."""


def kept_of_seconds(seconds: float) -> float:
    """Round a time."""
    return round(seconds, SECONDS)


def kept_of_request(request: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out the name of the file of its ids, which older records have and which follows from the key."""
    return {name: value for name, value in request.items() if name != "file"}


def kept_of_phase(phase: Mapping[str, Any]) -> dict[str, Any]:
    """Round a phase; leave out what could not be measured, and memory at the start where no more was needed later."""
    known = {
        name: (round(value, MIB) if name.endswith("_mib") else kept_of_seconds(value))
        if isinstance(value, float)
        else value
        for name, value in phase.items()
        if value is not None or name == "seconds"
    }
    return {
        name: value
        for name, value in known.items()
        if not (name.startswith("start_") and value == known.get(f"peak_{name.removeprefix('start_')}"))
    }


def kept_of_metrics(value: Any) -> Any:
    """Round the metrics of a record, by view and moment, or the statistics of its partition."""
    return _rounded(value, METRIC)


def kept_of_digest(digest: str) -> str:
    """Shorten a digest, which is longer in older records."""
    return digest[:DIGEST]


def kept_of_digests(digests: Mapping[str, Any]) -> dict[str, Any]:
    """Shorten the digests of parameters; name every member, and add what a file leaves out.

    Raises:
        ValueError: The parts contradict each other.
    """
    if isinstance(before := digests.get("before"), dict):
        digests = {**digests, "before": _by_name(before)}
    if isinstance(changed := digests.get(CHANGED), dict):
        if "after" in digests:
            raise ValueError("digests after the request are there twice: whole, and as what changed")
        everything = {**digests.get("before", {}), **changed}
        after = {name: digest for name, digest in everything.items() if digest is not None}
        others = {name: value for name, value in digests.items() if name != CHANGED}
        digests = {**what_follows(changed), **others, "after": after}
    shortened = {
        moment: {name: kept_of_digest(digest) for name, digest in digests[moment].items()}
        for moment in ("before", "after")
        if moment in digests
    }
    kept: dict[str, Any] = _rounded({**digests, **shortened}, METRIC)
    return kept


def written_digests(digests: Mapping[str, Any]) -> dict[str, Any]:
    """Return digests as a file holds them: members in order; after the request what changed, null for what is gone."""
    before, after = digests.get("before"), digests.get("after")
    if not isinstance(before, dict) or not isinstance(after, dict):
        return dict(digests)
    changed = {name: after.get(name) for name in {**before, **after} if before.get(name) != after.get(name)}
    follows = what_follows(changed)
    others = {
        name: value
        for name, value in digests.items()
        if name != "after" and not (name in follows and follows[name] == value)
    }
    return others | {"before": _in_order(before), CHANGED: changed}


def what_follows(changed: Collection[str]) -> dict[str, Any]:
    """Return what follows from which digests changed, so that no file has it: members' numbers; whether none did."""
    members = [int(member[1]) for name in sorted(changed) if (member := _MEMBER.fullmatch(name))]
    return {"members_changed": members, "unchanged": not changed}


def _member(number: int) -> str:
    return f"{MEMBERS}/{number:03d}"


def _in_order(before: Mapping[str, str]) -> dict[str, Any]:
    """Return digests with a list for the members from the first on, without their names."""
    count = next(number for number in itertools.count() if _member(number) not in before)
    if not count or MEMBERS in before:
        return dict(before)
    members = [_member(number) for number in range(count)]
    return {MEMBERS: [before[name] for name in members]} | {
        name: digest for name, digest in before.items() if name not in members
    }


def _by_name(before: Mapping[str, Any]) -> dict[str, str]:
    """Return digests with a name for each member.

    Raises:
        ValueError: Something else than the members has a list, or a member has two digests.
    """
    members = before.get(MEMBERS)
    listed = members if isinstance(members, list) else []
    others = {name: digest for name, digest in before.items() if not (listed and name == MEMBERS)}
    if lists := [name for name, digest in others.items() if isinstance(digest, list)]:
        raise ValueError(f"{lists[0]} has a list instead of a digest")
    by_name = {_member(number): digest for number, digest in enumerate(listed)}
    if twice := sorted(by_name.keys() & others.keys()):
        raise ValueError(f"{twice[0]} has two digests")
    return by_name | others


def kept_of_provenance(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Round the load; leave out the reasons that a record's cell has already; add what a file leaves out.

    A file without `plugins` is of a run without any but those of this package.
    """
    kept = dict(provenance)
    packages = kept.get("packages")
    if isinstance(packages, Mapping) and HARNESS in packages:
        kept.setdefault("plugins", {HARNESS: packages[HARNESS]})
    if isinstance(kept.get("load"), list):
        kept["load"] = [_fixed(value) for value in kept["load"]]
    if "other_cores" in kept:
        kept["other_cores"] = _fixed(kept["other_cores"])
    readings = kept.get("readings")
    if isinstance(readings, Mapping):
        reasons = readings.get("reasons") or {}
        others = {name: reason for name, reason in reasons.items() if reason != ON_CPU and name != PER_SHARD}
        kept["readings"] = {**readings, "reasons": others}
    return kept


def written_provenance(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Return provenance as a file holds it: without plugins where all are ours, and without reasons where none is."""
    written = dict(provenance)
    packages = written.get("packages")
    if isinstance(packages, Mapping) and HARNESS in packages and written.get("plugins") == {HARNESS: packages[HARNESS]}:
        del written["plugins"]
    if isinstance(readings := written.get("readings"), Mapping):
        written["readings"] = {name: value for name, value in readings.items() if name != "reasons" or value}
    return written


def kept_of_audit(audit: Mapping[str, Any]) -> dict[str, Any]:
    """Round every number in what an audit found; leave out what a score has not."""
    kept: dict[str, Any] = _rounded(dict(audit), AUDIT)
    if isinstance(kept.get("scores"), list):
        kept["scores"] = [
            {name: value for name, value in score.items() if name == "value" or value not in NOTHING}
            for score in kept["scores"]
        ]
    return kept


def written_audit(audit: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an audit found as a file holds it: its scores as columns."""
    return {name: written_columns(value) if name == "scores" else value for name, value in audit.items()}


def _fixed(value: Any) -> Any:
    return round(value, LOAD) if isinstance(value, float) else value


def _rounded(value: Any, digits: int) -> Any:
    """Round every number in plain values to significant digits."""
    if isinstance(value, float):
        return float(f"{value:.{digits}g}")
    if isinstance(value, dict):
        return {name: _rounded(inner, digits) for name, inner in value.items()}
    return [_rounded(inner, digits) for inner in value] if isinstance(value, list) else value
