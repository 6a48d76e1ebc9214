"""Divides a graph over chips: the computation of each chip, and the exchanges between them.

The result is one graph that all chips compute, with operators that exchange values between them
(``compiler/operators/domains/chips``), and the part of every constant that a chip has.
"""

from .bounds import ChipBounds, bounds_of, priced_machine
from .candidates import (
    ChosenDegrees,
    Cost,
    Pipelines,
    SpreadGraphs,
    TriedDegrees,
    checked_states,
    choose_degrees,
    possible_degrees,
)
from .degrees import Degrees, parsed_degrees
from .pipelines import (
    SENT,
    EstimatedPhase,
    PipelinedGraph,
    PipelineTimes,
    Receiving,
    Sending,
    SharedGraph,
    node_prices,
    pipelined_graph,
    stage_form,
    timeline,
    uncut_pipeline,
)
from .spread import SpreadGraph, spread_graph
from .written import said_degrees

__all__ = [
    "SENT",
    "ChipBounds",
    "ChosenDegrees",
    "Cost",
    "Degrees",
    "EstimatedPhase",
    "PipelineTimes",
    "PipelinedGraph",
    "Pipelines",
    "Receiving",
    "Sending",
    "SharedGraph",
    "SpreadGraph",
    "SpreadGraphs",
    "TriedDegrees",
    "bounds_of",
    "checked_states",
    "choose_degrees",
    "node_prices",
    "parsed_degrees",
    "pipelined_graph",
    "possible_degrees",
    "priced_machine",
    "said_degrees",
    "spread_graph",
    "stage_form",
    "timeline",
    "uncut_pipeline",
]
