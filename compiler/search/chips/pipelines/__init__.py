"""A graph as stages of a pipeline: its cuts, and the graphs of each stage's chips.

The sharing among the chips of a stage is decided first, as if there were no stages.
"""

from .alike import stage_form
from .cuts import node_prices
from .graph import PipelinedGraph, SharedGraph, pipelined_graph, uncut_pipeline
from .stages import SENT
from .timeline import EstimatedPhase, PipelineTimes, Receiving, Sending, timeline

__all__ = [
    "SENT",
    "EstimatedPhase",
    "PipelineTimes",
    "PipelinedGraph",
    "Receiving",
    "Sending",
    "SharedGraph",
    "node_prices",
    "pipelined_graph",
    "stage_form",
    "timeline",
    "uncut_pipeline",
]
