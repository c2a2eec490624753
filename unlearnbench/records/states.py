"""Deployed states on disk: the parameters of a method after a request, as plain tensors that anything can read."""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unlearnbench.component import canonical_json
from unlearnbench.errors import UsageError
from unlearnbench.graph import Split
from unlearnbench.records.files import make_folder, write_whole, wrong_checksum

FORMAT = 1
_MARK = "unlearnbench_state"
SERVICE = {"data": str, "original": str, "memory": dict, "attributes": list}
"""Digests of the graph that is held and of the one it was at first, without a split; the tensors of
`Unlearner.memory`; and the names of what the method holds."""
_PARTS = ("train", "val", "test")
_AGAIN = "Save it again: unlearnbench run --save-state DIR --overwrite always."


@dataclass(frozen=True, eq=False)
class State:
    """What a method deploys after a request, and what is needed to use it elsewhere.

    Args:
        key: Key of the cell.
        label: The method as tables show it.
        cell: The cell as plain JSON values: dataset with its checksum, model and method with every
            parameter, training, repetition, seed.
        weights: Deployed parameters by name, `members/003/conv1.weight`; on the CPU.
        forgotten: int64 [t], ascending ids of the nodes forgotten; of edges int64 [t, 2].
        split: Ids of training (before the request), validation and test nodes; int64, ascending.
        partition: int64 [[retained node id, shard], ...]; None if the method keeps no partition.
        service: What `unlearnbench.load_method` goes on with; None: nothing. See `SERVICE`.
    """

    key: str
    label: str
    cell: Mapping[str, Any]
    weights: Mapping[str, Tensor]
    forgotten: Tensor
    split: Split
    partition: Tensor | None = None
    service: Mapping[str, Any] | None = None


def save_state(state: State, path: Path) -> None:
    """Write a state atomically; see `state_bytes`.

    Raises:
        WriteError: It cannot be written.
    """
    make_folder(path.parent)
    write_whole(path, state_bytes(state))


def state_bytes(state: State) -> bytes:
    """Return the content of a state's file.

    It is a dictionary that `torch.load(path, weights_only=True)` reads: `unlearnbench_state`
    (the layout's version), and the names of `State`; `split` is a dictionary of `train`, `val`, `test`.
    """
    plain = {
        _MARK: FORMAT,
        "key": state.key,
        "label": state.label,
        "cell": json.loads(canonical_json(dict(state.cell))),
        "weights": {name: _plain(value) for name, value in state.weights.items()},
        "forgotten": _plain(state.forgotten),
        "split": {part: _plain(getattr(state.split, part)) for part in _PARTS},
        "partition": None if state.partition is None else _plain(state.partition),
    }
    if state.service is not None:
        memory = {name: _plain(value) for name, value in state.service["memory"].items()}
        plain["service"] = {**state.service, "memory": memory}
    content = io.BytesIO()
    torch.save(plain, content)
    return content.getvalue()


def load_state(path: str | Path) -> State:
    """Read what `run --save-state` or `Method.save` wrote, without executing anything in the file.

    Args:
        path: `DIR/KEY.pt`.

    Raises:
        UsageError: The file is not there, damaged, not a state, or of another layout.
    """
    path = Path(path)
    try:
        if not path.is_file():
            raise UsageError(
                f"{path} does not exist.",
                "Name a file that `Method.save` wrote, or DIR/KEY.pt of run --save-state DIR.",
            )
        wrong = wrong_checksum(path)
        if wrong is not None:
            raise UsageError(f"{path} is damaged: {wrong} in it has another checksum.", _AGAIN)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of unusual pickles; below they are errors
            plain = torch.load(path, map_location="cpu", weights_only=True)
    except UsageError:
        raise
    except Exception as error:  # a damaged pickle can raise anything
        raise UsageError(f"{path} cannot be read as a state ({type(error).__name__}).", _AGAIN) from None
    if not isinstance(plain, dict) or type(plain.get(_MARK)) is not int:
        raise UsageError(f"{path} is not a state: it has no layout version.", _AGAIN)
    if plain[_MARK] != FORMAT:
        raise UsageError(f"{path} has layout {plain[_MARK]}, this unlearnbench reads {FORMAT}.", _AGAIN)
    wrong = _misfit(plain)
    if wrong:
        raise UsageError(f"{path} is not a complete state: {wrong}.", _AGAIN)
    fields = {name: plain[name] for name in ("key", "label", "cell", "weights", "forgotten", "partition")}
    return State(split=Split(*(plain["split"][part] for part in _PARTS)), service=plain.get("service"), **fields)


def _plain(value: Tensor) -> Tensor:
    # A copy: saving a view would save the whole tensor behind it.
    return value.detach().cpu().contiguous().clone()


def _is_plain(value: Any) -> bool:
    # As `_plain` makes them. Torch does not check the indices and strides of other kinds that it loads.
    if not isinstance(value, Tensor) or value.is_nested or value.layout != torch.strided:
        return False
    return value.is_contiguous() and not (value.is_neg() or value.is_conj() or value.is_quantized or value.is_meta)


def _misfit(plain: Mapping[str, Any]) -> str:
    """Describe what is wrong with a state; empty if nothing is."""
    for name, kind in (("key", str), ("label", str), ("cell", dict), ("weights", dict), ("split", dict)):
        if not isinstance(plain.get(name), kind):
            return f"it has no {name}"
    if not all(isinstance(k, str) and _is_plain(v) for k, v in plain["weights"].items()):
        return "its weights are not plain tensors by name"
    ids: dict[str, tuple[Any, tuple[int, ...]]] = {f"split.{part}": (plain["split"].get(part), (1,)) for part in _PARTS}
    ids["forgotten"] = (plain.get("forgotten"), (1, 2))
    if plain.get("partition") is not None:
        ids["partition"] = (plain["partition"], (2,))
    for name, (value, dims) in ids.items():
        if not _is_plain(value) or value.dtype != torch.int64 or value.dim() not in dims:
            return f"{name} is not a tensor of ids"
    service = plain.get("service")
    if service is not None:
        if not isinstance(service, dict) or {name: type(value) for name, value in service.items()} != SERVICE:
            return "it does not say how to go on"
        if not all(isinstance(k, str) and _is_plain(v) for k, v in service["memory"].items()):
            return "its memory is not plain tensors by name"
    return ""
