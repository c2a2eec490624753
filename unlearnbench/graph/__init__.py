"""The graph value and the helpers that work on its edges and features."""

from unlearnbench.graph.graph import Graph as Graph
from unlearnbench.graph.split import Split as Split
