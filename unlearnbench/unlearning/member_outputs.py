"""What members say of many nodes: heard member by member, combined node by node, never held all at once."""

from __future__ import annotations

import tempfile
from typing import IO

import numpy as np
import torch
from torch import Tensor

from unlearnbench.errors import UnlearnbenchError
from unlearnbench.unlearning.aggregation import Members

# Up to so many numbers (256 MiB of float32) are kept in memory, more in a temporary file.
_MOST_IN_MEMORY = 2**26


class MemberOutputs:
    """Takes in what each of S members says of n nodes, and gives it back for a few nodes at a time.

    A member says everything in one pass, because the nodes asked about pass messages to each
    other, while an aggregator needs all members for a node. So what is too much for memory waits
    in a file without a name, which ends with this object.

    Args:
        shard: int64 [n], the nodes' own shards, as in `Members`.
        sizes: int64 [S], as in `Members`.
    """

    def __init__(self, shard: Tensor, sizes: Tensor) -> None:
        self._shard, self._sizes = shard, sizes
        # Embeddings and logits, each as one tensor or as one file.
        self._held: tuple[_InMemory | _InFile, _InMemory | _InFile] | None = None

    def put(self, member: int, embeddings: Tensor, logits: Tensor) -> None:
        """Take in what one member says.

        Args:
            member: Its number; one that is never put says zeros.
            embeddings: float32 [n, d].
            logits: float32 [n, C].

        Raises:
            UnlearnbenchError: There is no room for the temporary file.
        """
        if self._held is None:
            num_members = len(self._sizes)
            numbers = num_members * (embeddings.numel() + logits.numel())
            kind = _InMemory if numbers <= _MOST_IN_MEMORY else _InFile
            self._held = kind(num_members, embeddings), kind(num_members, logits)
        for rows, said in zip(self._held, (embeddings, logits), strict=True):
            rows.put(member, said)

    def members(self, start: int, stop: int) -> Members:
        """Give what all members say of nodes `start` to `stop`."""
        assert self._held is not None, "somebody must have spoken"
        embeddings, logits = (rows.cut(start, stop) for rows in self._held)
        return Members(embeddings, logits, self._shard[start:stop], self._sizes)

    def close(self) -> None:
        """Let go of what was said."""
        for rows in self._held or ():
            rows.close()
        self._held = None


class _InMemory:
    """One tensor [S, n, width]."""

    def __init__(self, num_members: int, like: Tensor) -> None:
        self._values = like.new_zeros(num_members, *like.shape)

    def put(self, member: int, said: Tensor) -> None:
        self._values[member] = said

    def cut(self, start: int, stop: int) -> Tensor:
        return self._values[:, start:stop]

    def close(self) -> None:
        pass


class _InFile:
    """One file, members one after the other; what was never written reads as zeros."""

    def __init__(self, num_members: int, like: Tensor) -> None:
        self._like, self._num_members = like[:0].clone(), num_members
        self._of_row = like.shape[1] * like.element_size()
        self._of_member = len(like) * self._of_row
        try:
            self._file: IO[bytes] = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
        except OSError as error:
            raise self._no_room(error) from error
        try:
            self._file.truncate(num_members * self._of_member)
        except OSError as error:
            self._file.close()
            raise self._no_room(error) from error

    def put(self, member: int, said: Tensor) -> None:
        self._file.seek(member * self._of_member)
        left = _bytes_of(said.detach().cpu().contiguous())
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:
            raise self._no_room(error) from error

    def cut(self, start: int, stop: int) -> Tensor:
        found = torch.empty(self._num_members, stop - start, self._like.shape[1], dtype=self._like.dtype)
        for member in range(self._num_members):
            self._file.seek(member * self._of_member + start * self._of_row)
            left = _bytes_of(found[member])
            while left:
                left = left[self._file.readinto(left) :]  # type: ignore[attr-defined]
        return found.to(self._like.device)

    def close(self) -> None:
        self._file.close()

    def _no_room(self, error: OSError) -> UnlearnbenchError:
        return UnlearnbenchError(
            f"What {self._num_members} members say cannot be written to {tempfile.gettempdir()}:"
            f" {error.strerror or error} ({self._num_members * self._of_member / 2**30:.1f} GiB are needed).",
            "Set TMPDIR to a folder on a disk with more room.",
        )


def _bytes_of(values: Tensor) -> memoryview:
    """Give the memory of a contiguous tensor on the CPU."""
    return values.numpy().reshape(-1).view(np.uint8).data
