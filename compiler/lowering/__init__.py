"""Lowerings: each operator of a graph as loads, engine instructions and stores.

A folder for each family; importing this package registers the lowerings of all of them.
"""

from __future__ import annotations

from . import recurrence
from .attention import attention, rotary
from .conv import convolution, pooling
from .indexing import indexing
from .matmul import matmul
from .movement import channelnorm, movement, pieces, upsample
from .pointwise import activations, arithmetic, casts, comparisons, functions, integers, inverse_functions
from .record import LOWERINGS, Lowering, Work
from .rows import batchnorm, groupnorm, normalization, reductions, softmax
from .stack import stack

__all__ = ["LOWERINGS", "Lowering", "Work"]
