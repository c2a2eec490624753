"""How tables name methods, protocols and what is forgotten."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unlearnbench.component import canonical_json
from unlearnbench.errors import UsageError
from unlearnbench.registry.brackets import Bracket, parse_bracket
from unlearnbench.running.options import TUNED

AMOUNTS = ("ratio", "count", "injected", "manipulated", "ids")
"""What of a request says how much is forgotten."""


def shown_method(label: str, preset: str, tuned: bool = False) -> str:
    """Name a method with its preset behind it, and whether it was tuned: `graphrevoker[sem_weight=0] (paper)`."""
    if tuned:
        return f"{shown_method(label, preset)} ({TUNED})"
    if not preset:
        return label
    try:
        bracket = parse_bracket(label)
    except UsageError:  # a plugin may label its rows as it likes
        return f"{label} ({preset})"
    rest = {key: value for key, value in bracket.arguments.items() if key != "preset"}
    return f"{Bracket(bracket.name, rest)} ({preset})"


def shown_protocol(protocol: Mapping[str, Any]) -> str:
    """Return the name of a protocol, with the setting where that is not the inductive one."""
    return "-".join([protocol["name"], *([protocol["setting"]] if "setting" in protocol else [])])


def shown_forget(forget: Mapping[str, Any]) -> str:
    """Describe in a few words what is forgotten."""
    if "stream" in forget:
        return f"{forget['stream']} times {shown_forget({k: v for k, v in forget.items() if k != 'stream'})}"
    if "known" in forget:
        return f"{100 * forget['known']:g} % of {shown_forget({k: v for k, v in forget.items() if k != 'known'})}"
    if forget.get("kind") == "feature" and len(forget) == 2 and forget.keys() & set(AMOUNTS):
        if any(isinstance(one, list) for one in forget.get("ids", [])):
            return _counted(len(forget["ids"]), "named ", "feature value")
        if "injected" in forget:
            return f"injected features of {_counted(forget['injected'], '', 'node')}"
        return f"features of {shown_forget({**forget, 'kind': 'node'})}"
    if set(forget) == {"kind", "ratio"}:
        return f"{100 * forget['ratio']:g} % of {forget['kind']}s"
    if set(forget) == {"kind", "count"}:
        return _counted(forget["count"], "", forget["kind"])
    if set(forget) == {"kind", "injected"}:
        return _counted(forget["injected"], "injected ", forget["kind"])
    if set(forget) == {"kind", "manipulated"}:
        return _counted(
            forget["manipulated"], "spurious " if forget["kind"] == "edge" else "mislabelled ", forget["kind"]
        )
    if set(forget) == {"kind", "ids"}:
        return _counted(len(forget["ids"]), "named ", forget["kind"])
    return canonical_json(forget)


def _counted(count: int, how: str, kind: str) -> str:
    return f"{count} {how}{kind}{'' if count == 1 else 's'}"
