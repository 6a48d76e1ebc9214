"""The operators that graphs may use, one record each (:class:`compiler.operators.record.Operator`).

To add an operator, add a record to the file of its family: checks, inference, the reference run and the table
in docs/operators.md follow from it.
"""

from __future__ import annotations

from compiler.graph import Node

from .elements import casting, comparison, composite_math, elementwise, pointwise
from .images import composite_sampling, resize
from .linear import attention, composite_linear, matmul, rotary
from .norms import composite_norm, normalization
from .quantized import composite_integer, quantization
from .record import OPERATORS, Attribute, Call, Input, Operator, Rule, call_of
from .recurrent import composite_recurrent, recurrence
from .reductions import composite_reduce, reduce
from .shapes import (
    composite_rearrange,
    composite_sequence,
    composite_shapes,
    composite_slicing,
    indexing,
    movement,
    slicing,
)
from .windows import composite_deform, composite_patches, composite_windows, conv, pool

__all__ = ["OPERATORS", "Attribute", "Call", "Input", "Node", "Operator", "Rule", "call_of"]
