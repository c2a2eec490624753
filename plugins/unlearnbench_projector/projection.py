"""Projection of weights onto the span of some nodes' features."""

from __future__ import annotations

import torch
from scipy.linalg import lapack
from torch import Tensor

from unlearnbench.gnn import sparse


def basis(features: Tensor) -> Tensor:
    """Return a basis of the span of the rows: float64 [r, F], r being the rank.

    The smaller Gram matrix is factorised by Cholesky with pivoting, which ends at the rank. With fewer nodes
    than features the pivots name independent rows. Otherwise they name independent columns J, and the rows
    of X_J^+ X are the basis.

    Args:
        features: float64 [n, F], X; rows of similar lengths.
    """
    left = features if len(features) < features.shape[1] else features.T
    factor, pivots, rank, _ = lapack.dpstrf(_gram(left).cpu().numpy(), lower=1)
    order = torch.from_numpy(pivots).long().to(features.device) - 1
    if left is features:
        return features[order[:rank]]
    if rank == len(left):
        return torch.eye(rank).to(features)
    lower = torch.from_numpy(factor).to(features).tril()[:, :rank]
    result = torch.empty_like(lower.T)
    result[:, order] = torch.linalg.solve_triangular(lower[:rank].T, lower.T, upper=True)
    return result


def projected(weights: Tensor, basis: Tensor) -> Tensor:
    """Project each column of the weights onto the span of a basis B: B' (B B')^-1 B W.

    The result is computed as a combination of the rows of B, so that it lies in their span.

    Args:
        weights: float64 [F, C].
        basis: float64 [r, F].
    """
    factor = torch.linalg.cholesky(_gram(basis))
    return basis.T @ torch.cholesky_solve(basis @ weights, factor)


def _gram(rows: Tensor) -> Tensor:
    return (sparse.from_dense(rows) if sparse.is_sparse_enough(rows) else rows) @ rows.T
