"""The division of a graph's nodes into training, validation and test nodes."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False)
class Split:
    """Ids of training, validation and test nodes, each int64 and ascending."""

    train: Tensor
    val: Tensor
    test: Tensor

    def parts(self) -> dict[str, Tensor]:
        """Return the three parts by the names that messages use."""
        return {"training": self.train, "validation": self.val, "test": self.test}
