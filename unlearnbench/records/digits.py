"""What a record keeps of what was measured: all that tells something. The rest would double a results folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SECONDS = 6
"""Decimals: no clock is better than a microsecond."""
MIB = 3
"""Decimals: memory is counted in KiB or pages."""
METRIC = 10
"""Significant digits: any two shares of the nodes of a graph differ in them."""
AUDIT = 6
"""Significant digits: intervals leave three."""
DIGEST = 16
"""Hexadecimal digits of a digest of parameters: 64 bits tell the networks of all records apart."""

ON_CPU = "computed on cpu"
"""Why a record has no memory of a GPU, which its cell says already."""


def kept_of_phase(phase: Mapping[str, Any]) -> dict[str, Any]:
    """Round a phase; leave out what could not be measured, and memory at the start where no more was needed later."""
    known = {
        name: round(value, MIB if name.endswith("_mib") else SECONDS) if isinstance(value, float) else value
        for name, value in phase.items()
        if value is not None or name == "seconds"
    }
    return {
        name: value
        for name, value in known.items()
        if not (name.startswith("start_") and value == known.get(f"peak_{name.removeprefix('start_')}"))
    }


def kept_of_metrics(value: Any) -> Any:
    """Round the metrics of a record, by view and moment."""
    return _rounded(value, METRIC)


def kept_of_digests(digests: Mapping[str, Any]) -> dict[str, Any]:
    """Shorten the digests of parameters, which are twice as long in older records."""
    shortened = {
        moment: {name: digest[:DIGEST] for name, digest in digests[moment].items()}
        for moment in ("before", "after")
        if moment in digests
    }
    return {**digests, **shortened}


def kept_of_provenance(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out the reason that all records made on a CPU would repeat for every reading of a GPU."""
    readings = provenance.get("readings") or {}
    reasons = readings.get("reasons")
    if not isinstance(reasons, Mapping) or ON_CPU not in reasons.values():
        return dict(provenance)
    others = {name: reason for name, reason in reasons.items() if reason != ON_CPU}
    return {**provenance, "readings": {**readings, "reasons": others}}


def kept_of_audit(value: Any) -> Any:
    """Round every number in what an audit found."""
    return _rounded(value, AUDIT)


def _rounded(value: Any, digits: int) -> Any:
    """Round every number in plain values to significant digits."""
    if isinstance(value, float):
        return float(f"{value:.{digits}g}")
    if isinstance(value, dict):
        return {name: _rounded(inner, digits) for name, inner in value.items()}
    return [_rounded(inner, digits) for inner in value] if isinstance(value, list) else value
