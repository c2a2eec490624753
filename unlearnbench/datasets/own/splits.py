"""The split that a user's graph comes with: masks, or lists of positions."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from unlearnbench.errors import DataError, UsageError
from unlearnbench.graph import Split

MASKS = ("train_mask", "val_mask", "test_mask")
# The part, by the names under which masks and lists of positions are kept.
PARTS = {
    f"{word}_{kind}": part
    for part, words in {"train": ["train"], "val": ["val", "valid", "validation", "dev"], "test": ["test"]}.items()
    for word in words
    for kind in ("mask", "idx", "index", "indices")
}


def split_masks(found: dict[str, Tensor], num_nodes: int) -> dict[str, Tensor]:
    """Return the masks of a split by the names in `MASKS`; they may be kept under any of `PARTS`.

    What does not end in `mask` holds positions of nodes, int [m], or is a mask all the same.

    Raises:
        DataError: A part stands there twice and differently, or something is no position of a node.
    """
    masks: dict[str, Tensor] = {}
    names: dict[str, str] = {}
    for name, value in found.items():
        mask = f"{PARTS[name]}_mask"
        is_mask = name.endswith("_mask") or value.dtype == torch.bool
        made = value if is_mask else _mask_of(name, value, num_nodes)
        if mask in masks and not torch.equal(masks[mask].to(torch.bool), made.to(torch.bool)):
            raise DataError(f"{names[mask]} and {name} name other nodes.", "Keep one of them.")
        masks[mask], names[mask] = made, name
    return masks


def _mask_of(name: str, positions: Tensor, num_nodes: int) -> Tensor:
    if positions.dim() != 1 or positions.is_floating_point() or positions.is_complex():
        raise DataError(
            f"{name} is {positions.dtype} of shape {list(positions.shape)}, expected whole numbers, [m].",
            "It holds positions of nodes, of one split.",
        )
    outside = (positions < 0) | (positions >= num_nodes)
    if bool(outside.any()):
        raise DataError(
            f"{name} holds {int(positions[outside][0])}, but there are {num_nodes} nodes.",
            "It holds positions, rows of x and y, not ids.",
        )
    mask = torch.zeros(num_nodes, dtype=torch.bool)
    mask[positions.to(torch.int64)] = True
    return mask


def own_split(masks: dict[str, Tensor], ids: Tensor, choice: int | Literal["folds"] | None) -> Split | None:
    """Make the split of a graph that comes with masks, None where the harness's folds are to be used.

    Args:
        masks: By the names in `MASKS`, each bool [n] or, of K splits, [n, K]; or empty. There may be no
            validation nodes.
        ids: int64 [n], ids of the nodes.
        choice: Which of K splits; `folds`: none of them.

    Raises:
        DataError: A mask is missing or has another shape.
        UsageError: There are several splits and none was chosen, or one that is not there.
    """
    if choice == "folds" or (not masks and choice is None):
        return None
    if not masks:
        raise UsageError(f"split {choice} was asked for, but there are no masks.", "Leave `split` out.")
    for name in ("train_mask", "test_mask"):
        if name not in masks:
            raise DataError(f"{', '.join(masks)} without {name}.", f"Add {name}, or use `split` folds.")
    masks = {**masks, "val_mask": masks.get("val_mask", torch.zeros_like(masks["test_mask"]))}
    columns = []
    for name in MASKS:
        mask = masks[name]
        mask = mask[:, None] if mask.dim() == 1 else mask
        if mask.dim() != 2 or len(mask) != len(ids):
            raise DataError(f"{name} has shape {list(masks[name].shape)}, expected [{len(ids)}] or [{len(ids)}, K].")
        if not bool(((mask == 0) | (mask == 1)).all()):
            raise DataError(f"{name} holds other values than true and false.", "A mask is bool.")
        columns.append(mask.to(torch.bool))
    counts = {mask.shape[1] for mask in columns}
    if len(counts) > 1:
        raise DataError(
            f"the masks hold different numbers of splits: {sorted(counts)}.", "Give as many columns in each."
        )
    (count,) = counts
    if count == 0:
        raise DataError("the masks hold no split.", "Give one column for each split, or use `split` folds.")
    known = "0" if count == 1 else f"0 to {count - 1}"
    if choice is None and count != 1:
        raise UsageError(
            f"there are {count} splits and none was chosen.", f"Use `split` {known}, or `split` folds for ten folds."
        )
    at = choice or 0
    if not 0 <= at < count:
        raise UsageError(f"split {at} does not exist.", f"Use `split` {known}.")
    return Split(*(ids[mask[:, at]].sort().values for mask in columns))
