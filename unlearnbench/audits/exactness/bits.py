"""Bitwise comparison of what methods deploy, with descriptions of the differences."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from unlearnbench.graph.digest import raw_bytes
from unlearnbench.measure.digests import member_of


def equal_bits(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same type, shape and bits; identical NaNs are equal."""
    same_kind = one.dtype is other.dtype and one.shape == other.shape
    return same_kind and bytes(raw_bytes(one)) == bytes(raw_bytes(other))


def unequal(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> list[str]:
    """Return the names of entries that differ in a bit, or that only one side has."""
    return [
        name
        for name in sorted({*one, *other})
        if name not in one or name not in other or not equal_bits(one[name], other[name])
    ]


def state_differences(one: Mapping[str, Tensor], other: Mapping[str, Tensor], before: Mapping[str, Tensor]) -> str:
    """Describe in which entries a state differs from another, grouped by member and aggregator; empty: in none.

    A group that differs and still has the bits from before the request is described as such.
    """
    groups: dict[str, list[str]] = {}
    for name in unequal(one, other):
        groups.setdefault(member_of(name), []).append(name)
    differences = []
    for group, names in groups.items():
        all_names = [name for name in {*one, *other} if member_of(name) == group]
        text = group if len(names) == len(all_names) else ", ".join(names)
        if not any(name in one for name in all_names):
            text += " (is not there)"
        elif not any(name in other for name in all_names):
            text += " (should not be there)"
        elif not unequal(_of(one, group), _of(before, group)):
            text += " (has the bits from before the request)"
        differences.append(text)
    return "state differs in " + ", ".join(differences) if differences else ""


def answer_differences(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> str:
    """Describe in which predictions two runs differ, in how many rows and by how much; empty: in none."""
    differences = []
    for name in unequal(one, other):
        if one[name].shape != other[name].shape:
            differences.append(f"{name}: shapes {list(one[name].shape)} and {list(other[name].shape)}")
            continue
        rows = int((one[name] != other[name]).any(dim=1).sum())
        most = float((one[name] - other[name]).abs().max())
        differences.append(f"{name}: {rows} of {len(one[name])} rows, by at most {most:.2g}")
    return f"answers differ ({'; '.join(differences)})" if differences else ""


def _of(state: Mapping[str, Tensor], group: str) -> dict[str, Tensor]:
    return {name: value for name, value in state.items() if member_of(name) == group}
