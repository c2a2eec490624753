"""Outputs of members for many nodes: collected member by member, read node by node, in memory or in a file."""

from __future__ import annotations

import tempfile
from typing import IO

import numpy as np
import torch
from torch import Tensor

from unlearnbench.errors import UnlearnbenchError
from unlearnbench.unlearning.aggregation import Members

# Up to this many numbers (256 MiB of float32) are kept in memory, more in a temporary file.
_MOST_IN_MEMORY = 2**26


class MemberOutputs:
    """Collects the outputs of S members for n nodes and returns those of a few nodes at a time.

    A member predicts all nodes in one pass, because they pass messages to each other, while an
    aggregator needs all members for a node. Outputs too large for memory are therefore written to
    an unnamed temporary file, which is deleted with this object.

    Args:
        shard: int64 [n], the nodes' own shards, as in `Members`.
        sizes: int64 [S], as in `Members`.
    """

    def __init__(self, shard: Tensor, sizes: Tensor) -> None:
        self._shard, self._sizes = shard, sizes
        # Embeddings and logits, each as one tensor or as one file.
        self._held: tuple[_InMemory | _InFile, _InMemory | _InFile] | None = None

    def put(self, member: int, embeddings: Tensor, logits: Tensor) -> None:
        """Store the outputs of one member.

        Args:
            member: Its number; the outputs of a member that is never put are zeros.
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
        for rows, outputs in zip(self._held, (embeddings, logits), strict=True):
            rows.put(member, outputs)

    def members(self, start: int, stop: int) -> Members:
        """Return the outputs of all members for nodes `start` to `stop`."""
        assert self._held is not None, "no member was put"
        embeddings, logits = (rows.cut(start, stop) for rows in self._held)
        return Members(embeddings, logits, self._shard[start:stop], self._sizes)

    def close(self) -> None:
        """Release the outputs."""
        for rows in self._held or ():
            rows.close()
        self._held = None


class _InMemory:
    """One tensor [S, n, width]."""

    def __init__(self, num_members: int, like: Tensor) -> None:
        self._values = like.new_zeros(num_members, *like.shape)

    def put(self, member: int, outputs: Tensor) -> None:
        self._values[member] = outputs

    def cut(self, start: int, stop: int) -> Tensor:
        return self._values[:, start:stop]

    def close(self) -> None:
        pass


class _InFile:
    """One file, member after member; what was never written reads as zeros."""

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

    def put(self, member: int, outputs: Tensor) -> None:
        self._file.seek(member * self._of_member)
        left = _bytes_of(outputs.detach().cpu().contiguous())
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:
            raise self._no_room(error) from error

    def cut(self, start: int, stop: int) -> Tensor:
        outputs = torch.empty(self._num_members, stop - start, self._like.shape[1], dtype=self._like.dtype)
        for member in range(self._num_members):
            self._file.seek(member * self._of_member + start * self._of_row)
            left = _bytes_of(outputs[member])
            while left:
                left = left[self._file.readinto(left) :]  # type: ignore[attr-defined]
        return outputs.to(self._like.device)

    def close(self) -> None:
        self._file.close()

    def _no_room(self, error: OSError) -> UnlearnbenchError:
        return UnlearnbenchError(
            f"The outputs of {self._num_members} members cannot be written to {tempfile.gettempdir()}:"
            f" {error.strerror or error} ({self._num_members * self._of_member / 2**30:.1f} GiB are needed).",
            "Set TMPDIR to a folder on a disk with more room.",
        )


def _bytes_of(values: Tensor) -> memoryview:
    """Return the memory of a contiguous tensor on the CPU."""
    return values.numpy().reshape(-1).view(np.uint8).data
