"""A graph as stages of a pipeline: where it is cut, and what the chips of each stage compute.

What the chips of a stage share among themselves is decided before, as if there were no stages.
"""

from .cuts import node_prices
from .graph import PipelinedGraph, SharedGraph, pipelined_graph
from .stages import SENT

__all__ = ["SENT", "PipelinedGraph", "SharedGraph", "node_prices", "pipelined_graph"]
