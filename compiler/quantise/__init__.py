"""Quantising float networks: which values become bytes, in which ranges, and what that costs in accuracy.

A float graph and samples of its inputs become a graph with QuantizeLinear and DequantizeLinear around the
nodes that are to compute with bytes (docs/quantisation.md). The passes know nothing of it: they take that
graph like one that came from a file.
"""

from .cycles import compiled_cycles
from .formats import FLOAT, FORMATS, DecisionTable
from .metric import Metric
from .quantise import Goal, Quantised, quantise
from .ranges.calibration import METHODS, Settings
from .ranges.samples import Samples, read_samples, samples_of

__all__ = [
    "FLOAT",
    "FORMATS",
    "METHODS",
    "DecisionTable",
    "Goal",
    "Metric",
    "Quantised",
    "Samples",
    "Settings",
    "compiled_cycles",
    "quantise",
    "read_samples",
    "samples_of",
]
