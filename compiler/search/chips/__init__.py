"""How a graph is divided over chips: what each of them computes, and what they exchange.

The result is one graph that all chips compute, with operators that exchange values between them
(``compiler/operators/domains/chips``), and the part of every constant that a chip has.
"""

from .degrees import Degrees, parsed_degrees
from .spread import SpreadGraph, spread_graph

__all__ = ["Degrees", "SpreadGraph", "parsed_degrees", "spread_graph"]
