"""Digests of tensors: the bytes that go in are those that older records and files were made with."""

from __future__ import annotations

import hashlib

import pytest
import torch
from torch import Tensor

from unlearnbench.audits.exactness.taint import _digest as taint_digest
from unlearnbench.graph.digest import raw_bytes, update
from unlearnbench.measure.digests import digests

TENSORS = [
    torch.arange(6).reshape(2, 3),
    torch.arange(6).reshape(2, 3).t(),
    torch.tensor(1.5),
    torch.zeros(0, 4, dtype=torch.float64),
    torch.tensor([True, False]),
    torch.tensor([1.0, float("nan")], dtype=torch.bfloat16),
    torch.ones(3, requires_grad=True),
]


@pytest.mark.parametrize("tensor", TENSORS, ids=lambda tensor: f"{tensor.dtype}-{tuple(tensor.shape)}")
def test_a_digest_is_of_name_type_shape_and_bytes(tensor: Tensor) -> None:
    plain = tensor.detach().clone(memory_format=torch.contiguous_format)
    content = bytes(plain.reshape(-1).view(torch.uint8).tolist())
    assert bytes(raw_bytes(tensor)) == content
    for name in ("", "members/000/weight"):
        by_hand = hashlib.blake2b(f"{name}{plain.dtype}{tuple(plain.shape)}".encode() + content, digest_size=16)
        digest = hashlib.blake2b(digest_size=16)
        update(digest, tensor, name)
        assert digest.hexdigest() == by_hand.hexdigest()
    assert digests({"members/000/weight": tensor}) == {"members/000": by_hand.hexdigest()[:12]}
    without_shape = hashlib.blake2b(f"{plain.dtype}".encode() + content, digest_size=16)
    assert taint_digest(tensor) == without_shape.hexdigest()


def test_names_types_and_shapes_tell_tensors_of_equal_bytes_apart() -> None:
    zeros = torch.zeros(4, dtype=torch.int32)
    found = set()
    for tensor, name in ((zeros, ""), (zeros, "a"), (zeros.view(2, 2), ""), (zeros.view(torch.float32), "")):
        digest = hashlib.sha256()
        update(digest, tensor, name)
        found.add(digest.hexdigest())
    assert len(found) == 4
