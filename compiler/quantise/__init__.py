"""Quantises float networks: chooses the values that become bytes and their ranges, and measures the loss.

A float graph and samples of its inputs become a graph with QuantizeLinear and DequantizeLinear around the
nodes that are to compute with bytes (docs/quantisation.md). The passes compile that graph like one that came
from a file.
"""

from .automatic import Allowed, automatic, held_wide
from .cycles import CyclesOf, PhaseCycles, compiled_cycles
from .formats import FLOAT, FORMATS, DecisionTable
from .metric import Metric
from .quantise import Chosen, Goal, Quantised, quantise
from .ranges.calibration import METHODS, Settings
from .ranges.samples import Samples, read_samples, samples_of

__all__ = [
    "FLOAT",
    "FORMATS",
    "METHODS",
    "Allowed",
    "Chosen",
    "CyclesOf",
    "DecisionTable",
    "Goal",
    "Metric",
    "PhaseCycles",
    "Quantised",
    "Samples",
    "Settings",
    "automatic",
    "compiled_cycles",
    "held_wide",
    "quantise",
    "read_samples",
    "samples_of",
]
