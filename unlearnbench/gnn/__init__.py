"""Stacked networks: S small GNNs trained in lockstep, each bit for bit as if trained alone."""

from unlearnbench.gnn import sparse
from unlearnbench.gnn.dropout import Noise
from unlearnbench.gnn.matrices import normalised
from unlearnbench.gnn.models import Model, Stack, StackedModel
from unlearnbench.gnn.networks import Answering, Change, Networks
from unlearnbench.gnn.sampling import NeighbourSampler
from unlearnbench.gnn.sparse import SparseMatrix
from unlearnbench.gnn.training import blank_networks, train_networks
from unlearnbench.gnn.zoo import GCN
from unlearnbench.graph.sparse_features import SparseRows

__all__ = [
    "GCN",
    "Answering",
    "Change",
    "Model",
    "NeighbourSampler",
    "Networks",
    "Noise",
    "SparseMatrix",
    "SparseRows",
    "Stack",
    "StackedModel",
    "blank_networks",
    "normalised",
    "sparse",
    "train_networks",
]
