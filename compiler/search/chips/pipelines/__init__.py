"""A graph as stages of a pipeline: where it is cut, and what the chips of each stage compute."""

from .cuts import node_prices
from .graph import PipelinedGraph, SharedGraph, pipelined_graph
from .stages import SENT

__all__ = ["SENT", "PipelinedGraph", "SharedGraph", "node_prices", "pipelined_graph"]
