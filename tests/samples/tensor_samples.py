"""What tests of cost share: a look at every tensor that torch makes, so that no clock is needed."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Made(TorchDispatchMode):
    """Looks at what every operation of torch gives, within its context.

    Attributes:
        operations: How many there were.
        elements: How many elements they gave, all together.
        largest: How many elements the largest piece of memory holds that one of them gave.
        where: Which operation gave it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.operations = self.elements = self.largest = 0
        self.where = ""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.operations += 1
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor) and tensor.layout is torch.strided:
                self.elements += tensor.numel()
                # A view that repeats its rows takes no memory.
                held = tensor.untyped_storage().nbytes() // tensor.element_size()
                if held > self.largest:
                    self.largest, self.where = held, f"{func} {list(tensor.shape)}"
        return result
