"""Stacked networks: S small GNNs trained in lockstep, each with the bits it would have alone."""

from unlearnbench.gnn.making import blank_networks as blank_networks
from unlearnbench.gnn.making import train_networks as train_networks
from unlearnbench.gnn.models import GCN as GCN
from unlearnbench.gnn.models import Model as Model
from unlearnbench.gnn.models import Stack as Stack
from unlearnbench.gnn.models import StackedModel as StackedModel
from unlearnbench.gnn.networks import Answering as Answering
from unlearnbench.gnn.networks import Change as Change
from unlearnbench.gnn.networks import Networks as Networks
from unlearnbench.gnn.noise import Noise as Noise
from unlearnbench.gnn.sampling import NeighbourSampler as NeighbourSampler
